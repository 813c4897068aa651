package server

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
)

const backupType = "application/octet-stream"

const backupDescription = `One file with all that is counted, while hits go on: every hit that was counted before the request is in it.
` + "`weir restore`" + ` makes a data directory of it. The file ends with its own checksum: one that was cut short on the way
is refused then. An ephemeral server has none to give. There is one backup at a time; who does not
take it at 64 KiB a second (--min-rate) loses it.`

// registerBackup routes GET /v1/backup around huma, which would hold the whole
// file in memory, and describes it by hand.
func (s *Server) registerBackup(doc huma.API, mux *router) {
	mux.HandleFunc("GET /v1/backup", s.backup)
	responses := problemResponses(doc, api.CodeEphemeral, api.CodeBackupRunning, api.CodeStopping, api.CodeForbiddenOrigin)
	responses["200"] = &huma.Response{
		Description: "The backup",
		Content:     map[string]*huma.MediaType{backupType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
	}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "backup", Method: http.MethodGet, Path: "/v1/backup",
		Summary: "Back up all counts", Description: backupDescription,
		Responses: responses,
	})
}

// backup streams. A failure after the first byte can't be told any more: the
// connection is dropped, so that the client sees it.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Journal == nil {
		newProblem(api.CodeEphemeral, "", "an ephemeral server keeps no data to back up: start it with --data").write(w)
		return
	}
	client := clientOf(r)
	if !s.service.Pools.Backup.Enter(client, 1) {
		newProblem(api.CodeBackupRunning, "", "another backup is being taken, and there is one at a time: wait for its end").write(w)
		return
	}
	defer s.service.Pools.Backup.Leave(client, 1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	to := &backupStream{w: s.pacedAnswer(w)}
	err := s.cfg.Journal.Backup(ctx, to)
	switch {
	case err == nil:
		s.log.InfoContext(ctx, "a backup was taken", "bytes", to.bytes, "remote", r.RemoteAddr)
	case to.bytes == 0:
		s.log.ErrorContext(ctx, "a backup failed", "error", err)
		newProblem(api.CodeStopping, "", "the backup could not be taken: the server's log says why").write(w)
	default:
		s.log.ErrorContext(ctx, "a backup failed and its connection was dropped", "bytes", to.bytes, "error", err)
		panic(http.ErrAbortHandler)
	}
}

// backupStream has no deadline but the pace: a backup takes as long as it takes.
type backupStream struct {
	w     *pacedWriter
	bytes int64
}

var _ io.Writer = (*backupStream)(nil)

func (b *backupStream) Write(piece []byte) (int, error) {
	if b.bytes == 0 {
		b.w.Header().Set("Content-Type", backupType)
		b.w.Header().Set("Content-Disposition", `attachment; filename="weir.backup"`)
	}
	n, err := b.w.Write(piece)
	b.bytes += int64(n)
	return n, err
}
