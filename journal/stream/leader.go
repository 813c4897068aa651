package stream

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// A message is read from any replica where that is enough: this node's own is
// near. But one that has just been started, or replaced by an empty one, answers
// before it has caught up: what it does not have may well be there. So what a
// start goes by, and what any replica does not find, is asked of the leader.

// wanted names a message: by its sequence, or as the last of a subject.
type wanted struct {
	Sequence uint64 `json:"seq,omitempty"`
	LastOf   string `json:"last_by_subj,omitempty"`
}

// fromLeader reads a message of a stream, or returns ErrMsgNotFound.
func (s *streams) fromLeader(ctx context.Context, stream string, which wanted) (sequence uint64, data []byte, err error) {
	request, err := json.Marshal(which)
	if err != nil {
		return 0, nil, err
	}
	msg, err := s.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, request)
	if err != nil {
		return 0, nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Sequence uint64 `json:"seq"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return 0, nil, fmt.Errorf("the leader of %s: %w", stream, err)
	}
	switch {
	case answer.Error == nil:
		return answer.Message.Sequence, answer.Message.Data, nil
	case answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return 0, nil, jetstream.ErrMsgNotFound
	}
	return 0, nil, answer.Error
}
