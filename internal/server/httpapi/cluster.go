package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/weir-counter/weir/api"
)

type clusterOutput struct{ Body api.ClusterAnswer }

func (s *Server) registerCluster(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "cluster", Method: http.MethodGet, Path: "/v1/cluster",
		Summary:     "The nodes that count together, as this one sees them",
		Description: "Servers that do not answer are left out after up to a second; `problems` lists what could not be determined. A server alone has `mode` alone or ephemeral, and no nodes.",
	}, []api.Code{api.CodeClosed}, func(ctx context.Context, _ *struct{}) (*clusterOutput, error) {
		answer, err := s.service.Nodes(ctx, callerOf(ctx))
		return &clusterOutput{answer}, ProblemOrNil(err)
	})
}

type removeInput struct {
	Node string `path:"node" maxLength:"64" doc:"Its name."`
}

type removedOutput struct{ Body api.RemovedAnswer }

func (s *Server) registerRemove(doc *API) {
	AskView(doc, huma.Operation{
		OperationID: "removeNode", Method: http.MethodDelete, Path: "/v1/cluster/nodes/{node}",
		Summary: "Remove a node that never comes back",
		Description: "Quorums are counted without it, its replicas move to a node that has none, and no answer waits for it; its hits stay counted. " +
			"One that is alive is refused: stop it before. It takes up to 20 s, and can be asked for again.",
	}, []api.Code{api.CodeUnknownNode, api.CodeNodeHere, api.CodeNoCluster, api.CodeNotRemoved}, func(ctx context.Context, in *removeInput) (*removedOutput, error) {
		answer, err := s.service.Remove(ctx, callerOf(ctx), in.Node)
		return &removedOutput{answer}, ProblemOrNil(err)
	})
}

type regionsOutput struct{ Body api.RegionsAnswer }

type forgetRegionInput struct {
	Region string `path:"region" maxLength:"64" doc:"Its name."`
}

// feedPath is what the links of other regions ask for (package internal/region).
const feedPath = "/v1/regions/feed"

const feedDescription = `For the links of other regions: an answer that lasts, of frames, each a length as an unsigned varint and a message; an empty one says
that the link is alive. docs/format.md has the messages. The header field Weir-Region has the name of this region. It takes role read for all keys.`

func (s *Server) registerRegions(doc *API, mux *router) {
	AskView(doc, huma.Operation{
		OperationID: "regions", Method: http.MethodGet, Path: "/v1/regions",
		Summary: "The regions that count together, as this node sees them",
	}, []api.Code{api.CodeClosed}, func(ctx context.Context, _ *struct{}) (*regionsOutput, error) {
		answer, err := s.service.Regions(callerOf(ctx))
		return &regionsOutput{answer}, ProblemOrNil(err)
	})
	AskView(doc, huma.Operation{
		OperationID: "forgetRegion", Method: http.MethodDelete, Path: "/v1/regions/{region}",
		Summary: "Forget a region that never comes back",
		Description: "Its hits are in no count any more, here and wherever links lead, and no answer waits for it. If it comes back after all, " +
			"it does with all its hits.",
		DefaultStatus: http.StatusNoContent,
	}, []api.Code{api.CodeUnknownRegion, api.CodeStopping}, func(ctx context.Context, in *forgetRegionInput) (*struct{}, error) {
		return nil, ProblemOrNil(s.service.Forget(ctx, callerOf(ctx), in.Region))
	})
	mux.HandleFunc("GET "+feedPath, s.feed)
	responses := doc.Responses(api.CodeInvalidParameter, api.CodeOverloaded)
	responses["200"] = &huma.Response{
		Description: "Frames, for as long as the connection lasts",
		Content:     map[string]*huma.MediaType{backupType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
	}
	parameter := func(name, says string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: says, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "regionsFeed", Method: http.MethodGet, Path: feedPath, Summary: "Digests of all regions, as they come", Description: feedDescription,
		Parameters: []*huma.Param{parameter("as", "The region that asks."), parameter("have", "What the caller has: region:epoch:digest, separated by commas."), parameter("begun", "Bases of which the caller has the first pieces: region:epoch:digest:pieces:hash, separated by commas.")},
		Responses:  responses,
	})
}

// feed sends digests until the client leaves, may not read any more, or the server stops.
func (s *Server) feed(w http.ResponseWriter, r *http.Request) {
	c := clientOf(r)
	region, err := s.service.FeedRegion(c)
	if err != nil {
		ProblemOf(err).Write(w)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // as in PacedBody: the request is there, the answer outlasts its deadline
	w.Header().Set("Content-Type", backupType)
	w.Header().Set("Weir-Region", region)
	w.Header().Set("X-Accel-Buffering", "no")
	began := false
	asked := r.URL.Query()
	err = s.service.Feed(ctx, c, asked.Get("as"), asked.Get("have"), asked.Get("begun"), func(frames []byte) error {
		began = true
		to := NewPacedWriter(w, s.pace())
		defer to.NoDeadline()
		_, err := to.Write(frames)
		return err
	}, func() error {
		began = true
		return control.Flush()
	})
	if err != nil && !began {
		w.Header().Del("Weir-Region")
		ProblemOf(err).Write(w)
	}
}

const backupType = "application/octet-stream"

const backupDescription = `One file with all that is counted, while hits go on: every hit that was counted before the request is in it.
` + "`weir restore`" + ` makes a data directory of it. The file ends with its own checksum: one that was cut short on the way
is refused then. An ephemeral server has none to give. There is one backup at a time; who does not
take it at 64 KiB a second loses it.`

// registerBackup routes GET /v1/backup around huma, which would hold the whole
// file in memory, and describes it by hand.
func (s *Server) registerBackup(doc *API, mux *router) {
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
		ProblemOf(err).Write(w)
	}
}

// backupStream has no deadline but the pace: a backup takes as long as it takes.
type backupStream struct {
	w     *PacedWriter
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

const restoreDescription = `Adds a backup to the counts of this server, and of all nodes that count with it, or with mode=replace makes the counts those of the
backup. The body is the file of ` + "`weir backup`" + `. It is checked as a whole before anything of it counts. It may be of a server with another retention
or another number of partitions. The answer comes when all is on disk, in a cluster on most nodes. **Merging the same backup again counts nothing**: a request
whose answer was lost is sent again. Another backup of a journal of which one was merged, or of this server's own, is refused with ` + "`counted_twice`" + `.`

// registerRestore routes POST /v1/restore around huma, which would hold the whole file in
// memory, and describes it by hand.
func (s *Server) registerRestore(doc *API, mux *router) {
	mux.HandleFunc("POST /v1/restore", s.restore)
	responses := doc.Responses(api.CodeInvalidParameter, api.CodeDamagedBackup, api.CodeEphemeral, api.CodeRestoreRunning, api.CodeCountedTwice, api.CodeStopping)
	schema := doc.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Restored](), true, "Restored")
	responses["200"] = &huma.Response{Description: "The result", Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	doc.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "restore", Method: http.MethodPost, Path: "/v1/restore",
		Summary: "Restore a backup into the running server", Description: restoreDescription,
		Parameters: []*huma.Param{{
			Name: "mode", In: "query", Required: true, Description: "merge adds the backup's hits; replace makes the counts equal to the backup",
			Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"merge", "replace"}},
		}},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{backupType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}},
		Responses:   responses,
	})
}

func (s *Server) restore(w http.ResponseWriter, r *http.Request) {
	backup := NewPacedBody(w, r, s.pace(), s.cfg.WriteTimeout)
	done, err := s.service.Restore(r.Context(), clientOf(r), backup, api.RestoreMode(r.URL.Query().Get("mode")))
	answer := s.paced(w)
	answer.NoDeadline()
	if err != nil {
		ProblemOf(err).Write(answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(answer).Encode(done) // a client that left is not an error of ours
}
