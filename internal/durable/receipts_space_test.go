package durable

import (
	"errors"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/engine"
)

// Receipts without space in snapshots are refused at Open: a full journal would never be trimmed.
func TestReceiptsHaveSpaceOnDisk(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, t.TempDir())
	cfg.MaxBytes = 64 << 20
	config := smallEngineConfig()
	config.OnceMemory = 64 << 20
	_, err := tryStartWith(t, cfg, config)
	fault, ok := errors.AsType[*engine.Error](err)
	if !ok || fault.Field != "MaxBytes" || !strings.Contains(err.Error(), "at least 7680MiB") || !strings.Contains(err.Error(), "at most 546KiB") {
		t.Fatal(err)
	}
	config.OnceMemory = 546 << 10
	start, err := tryStartWith(t, cfg, config)
	if err != nil {
		t.Fatal("what was advised:", err)
	}
	start.close()
}
