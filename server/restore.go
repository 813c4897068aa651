package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

const restoreDescription = `Adds a backup to the counts of this server, and of all nodes that count with it, or with mode=replace makes the counts those of the
backup. The body is the file of ` + "`weir backup`" + `. It is checked as a whole before anything of it counts. It may be of a server with another retention
or another number of partitions. The answer comes when all is on disk, in a cluster on most nodes. **Merging the same backup again counts nothing**: a request
whose answer was lost is sent again. Another backup of a journal of which one was merged, or of this server's own, is refused with ` + "`counted_twice`" + `.`

// registerRestore routes POST /v1/restore around huma, which would hold the whole file in
// memory, and describes it by hand.
func (s *Server) registerRestore(doc huma.API, mux *router) {
	mux.HandleFunc("POST /v1/restore", s.restore)
	responses := problemResponses(doc, api.CodeInvalidParameter, api.CodeDamagedBackup, api.CodeEphemeral, api.CodeRestoreRunning, api.CodeCountedTwice, api.CodeStopping, api.CodeForbiddenOrigin)
	schema := doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Restored](), true, "Restored")
	responses["200"] = &huma.Response{Description: "What became of it", Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "restore", Method: http.MethodPost, Path: "/v1/restore",
		Summary: "Restore a backup into the running server", Description: restoreDescription,
		Parameters: []*huma.Param{{
			Name: "mode", In: "query", Required: true, Description: "merge adds the backup's hits; replace makes the counts those of the backup",
			Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"merge", "replace"}},
		}},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{backupType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}},
		Responses:   responses,
	})
}

func (s *Server) restore(w http.ResponseWriter, r *http.Request) {
	mode := r.URL.Query().Get("mode")
	if mode != "merge" && mode != "replace" {
		newProblem(api.CodeInvalidParameter, "mode", "mode must be merge, which adds the backup's hits, or replace").write(w)
		return
	}
	if s.cfg.Journal == nil {
		newProblem(api.CodeEphemeral, "", "an ephemeral server keeps no data: start it with --data").write(w)
		return
	}
	client := clientOf(r)
	if !s.service.Pools.Restore.Enter(client, 1) {
		newProblem(api.CodeRestoreRunning, "", "another backup is being restored, and there is one at a time: wait for its end").write(w)
		return
	}
	defer s.service.Pools.Restore.Leave(client, 1)
	body := &pacedBody{r.Body, http.NewResponseController(w), connOf(r), s.newPace(), s.cfg.WriteTimeout}
	done, err := s.cfg.Journal.Restore(r.Context(), body, mode)
	answer := s.pacedAnswer(w)
	_ = answer.control.SetWriteDeadline(time.Time{}) // what the server took does not count
	if err != nil {
		s.log.ErrorContext(r.Context(), "a backup was not restored", "mode", mode, "error", err)
		restoreProblem(err).write(answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(answer).Encode(done) // a client that left is not an error of ours
}

func restoreProblem(err error) *problem {
	for _, known := range []struct {
		err  error
		code *problem
	}{
		{ErrRestoring, newProblem(api.CodeRestoreRunning, "", err.Error())},
		{ErrCountedTwice, newProblem(api.CodeCountedTwice, "mode", err.Error())},
		{ErrDamagedBackup, newProblem(api.CodeDamagedBackup, "", err.Error())},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return newProblem(api.CodeStopping, "", "the backup was not restored, or not as a whole: send it again; the server's log says why")
}
