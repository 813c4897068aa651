package access

import "testing"

func TestOpenToOthers(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:8080": false, "127.9.9.9:1": false, "[::1]:8080": false, "[::ffff:127.0.0.1]:80": false,
		"0.0.0.0:8080": true, "[::]:8080": true, "10.0.0.1:8080": true, "": false,
	} {
		if got := OpenToOthers(addr); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}
