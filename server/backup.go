package server

import (
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/server/problem"
)

const backupType = "application/octet-stream"

const backupDescription = `One file with all that is counted, while hits go on: every hit that was counted before the request is in it.
` + "`weir restore`" + ` makes a data directory of it. The file ends with its own checksum: one that was cut short on the way
is refused then. An ephemeral server has none to give. There is one backup at a time; who does not
take it at 64 KiB a second (--min-rate) loses it.`

// registerBackup routes GET /v1/backup around huma, which would hold the whole
// file in memory, and describes it by hand.
func (s *Server) registerBackup(doc *openapi.API, mux *router) {
	mux.HandleFunc("GET /v1/backup", s.backup)
	responses := doc.Responses(api.CodeEphemeral, api.CodeBackupRunning, api.CodeStopping)
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
	to := &backupStream{w: s.paced(w)}
	err := s.service.Backup(r.Context(), clientOf(r), to)
	switch {
	case err == nil:
	case to.began:
		panic(http.ErrAbortHandler)
	default:
		problem.Of(err).Write(w)
	}
}

// backupStream has no deadline but the pace: a backup takes as long as it takes.
type backupStream struct {
	w     *pace.Writer
	began bool
}

var _ io.Writer = (*backupStream)(nil)

func (b *backupStream) Write(piece []byte) (int, error) {
	if !b.began {
		b.began = true
		b.w.Header().Set("Content-Type", backupType)
		b.w.Header().Set("Content-Disposition", `attachment; filename="weir.backup"`)
	}
	return b.w.Write(piece)
}
