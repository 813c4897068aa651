package jointest

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// RemoveAll is os.RemoveAll of a directory that a process still writes to: again while there are files that
// were made meanwhile, for at most Patience.
func RemoveAll(dir string) error {
	for began := time.Now(); ; {
		err := os.RemoveAll(dir)
		if !errors.Is(err, syscall.ENOTEMPTY) || time.Since(began) > Patience {
			return err
		}
	}
}
