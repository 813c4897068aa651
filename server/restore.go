package server

import (
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/server/problem"
)

const restoreDescription = `Adds a backup to the counts of this server, and of all nodes that count with it, or with mode=replace makes the counts those of the
backup. The body is the file of ` + "`weir backup`" + `. It is checked as a whole before anything of it counts. It may be of a server with another retention
or another number of partitions. The answer comes when all is on disk, in a cluster on most nodes. **Merging the same backup again counts nothing**: a request
whose answer was lost is sent again. Another backup of a journal of which one was merged, or of this server's own, is refused with ` + "`counted_twice`" + `.`

// registerRestore routes POST /v1/restore around huma, which would hold the whole file in
// memory, and describes it by hand.
func (s *Server) registerRestore(doc *openapi.API, mux *router) {
	mux.HandleFunc("POST /v1/restore", s.restore)
	responses := doc.Responses(api.CodeInvalidParameter, api.CodeDamagedBackup, api.CodeEphemeral, api.CodeRestoreRunning, api.CodeCountedTwice, api.CodeStopping)
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
	backup := pace.NewBody(w, r, s.pace(), s.cfg.WriteTimeout)
	done, err := s.service.Restore(r.Context(), clientOf(r), backup, api.RestoreMode(r.URL.Query().Get("mode")))
	answer := s.paced(w)
	answer.NoDeadline()
	if err != nil {
		problem.Of(err).Write(answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(answer).Encode(done) // a client that left is not an error of ours
}
