package httpapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/weir-counter/weir/api"
)

// The answer that is written by hand is the one of encoding/json, with each of its members.
func TestAppendAnswer(t *testing.T) {
	t.Parallel()
	rejected := []api.RejectedLine{{Line: 2, Code: api.CodeInvalidKey, Message: "a \"<b>\"\n\u2028"}}
	for member := range reflect.TypeFor[api.HitsAnswer]().NumField() {
		a := api.HitsAnswer{Rejected: []api.RejectedLine{}}
		switch field := reflect.ValueOf(&a).Elem().Field(member); field.Kind() {
		case reflect.Uint64:
			field.SetUint(1<<64 - 1)
		case reflect.Int:
			field.SetInt(1 << 40)
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Slice:
			field.Set(reflect.ValueOf(rejected))
		default:
			t.Fatalf("member %d is a %v", member, field.Kind())
		}
		var want bytes.Buffer
		if err := json.NewEncoder(&want).Encode(&a); err != nil {
			t.Fatal(err)
		}
		if got := appendHitsAnswer([]byte("before "), &a); string(got) != "before "+want.String() {
			t.Errorf("%s, want %s", got, want.String())
		}
	}
}
