package node

import (
	"errors"
	"fmt"
	"syscall"
)

// addressHint says which setting chooses another address.
func addressHint(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: is a server running already? choose another address with --http", err)
	}
	return err
}
