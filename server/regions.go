package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

type regionsOutput struct{ Body api.RegionsAnswer }

type forgetRegionInput struct {
	Region string `path:"region" maxLength:"64" doc:"Its name."`
}

// feedPath is what the links of other regions ask for (package region/link).
const feedPath = "/v1/regions/feed"

const feedDescription = `For the links of other regions: an answer that lasts, of frames, each a length as an unsigned varint and a message; an empty one says
that the link is alive. docs/format.md has the messages. The header field Weir-Region has the name of this region. It takes role read for all keys.`

func (s *Server) registerRegions(doc *openapi.API, mux *router) {
	openapi.Ask(doc, huma.Operation{
		OperationID: "regions", Method: http.MethodGet, Path: "/v1/regions",
		Summary: "The regions that count together, as this node sees them",
	}, []api.Code{api.CodeClosed}, func(ctx context.Context, _ *struct{}) (*regionsOutput, error) {
		answer, err := s.service.Regions(callerOf(ctx))
		return &regionsOutput{answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "forgetRegion", Method: http.MethodDelete, Path: "/v1/regions/{region}",
		Summary: "Forget a region that never comes back",
		Description: "Its hits are in no count any more, here and wherever links lead, and no answer waits for it. If it comes back after all, " +
			"it does with all its hits.",
		DefaultStatus: http.StatusNoContent,
	}, []api.Code{api.CodeUnknownRegion, api.CodeStopping}, func(ctx context.Context, in *forgetRegionInput) (*struct{}, error) {
		return nil, problem.OrNil(s.service.Forget(ctx, callerOf(ctx), in.Region))
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
		Parameters: []*huma.Param{parameter("as", "The region that asks."), parameter("have", "What it has: region:epoch:digest, apart by commas."), parameter("begun", "Bases of which it has the first pieces: region:epoch:digest:pieces:hash, apart by commas.")},
		Responses:  responses,
	})
}

// feed sends digests until the client leaves, may not read any more, or the server stops.
func (s *Server) feed(w http.ResponseWriter, r *http.Request) {
	c := clientOf(r)
	region, err := s.service.FeedRegion(c)
	if err != nil {
		problem.Of(err).Write(w)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // as in pace.Body: the request is there, the answer outlasts its deadline
	w.Header().Set("Content-Type", backupType)
	w.Header().Set("Weir-Region", region)
	w.Header().Set("X-Accel-Buffering", "no")
	began := false
	asked := r.URL.Query()
	err = s.service.Feed(ctx, c, service.FeedRequest{As: asked.Get("as"), Have: asked.Get("have"), Begun: asked.Get("begun")}, func(frames []byte) error {
		began = true
		to := pace.NewWriter(w, s.pace())
		defer to.NoDeadline()
		_, err := to.Write(frames)
		return err
	}, func() error {
		began = true
		return control.Flush()
	})
	if err != nil && !began {
		w.Header().Del("Weir-Region")
		problem.Of(err).Write(w)
	}
}
