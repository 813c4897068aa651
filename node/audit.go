package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// auditFile is the file of the audit log, to which records are appended. It may be moved away: reopen
// begins it anew. It has a lock of its own, and each record is one write.
type auditFile struct {
	path string
	log  *slog.Logger // of the node

	mu   sync.Mutex // guards file
	file *os.File
}

// openAudit opens the file that the configuration names, if any, and has the service write its
// audit log there.
func (n *Node) openAudit() error {
	if n.cfg.AuditLog == "" {
		return nil
	}
	n.auditFile = &auditFile{path: n.cfg.AuditLog, log: n.log}
	if err := n.auditFile.reopen(); err != nil {
		return fmt.Errorf("--audit-log: %w", err)
	}
	n.parts.opened(func(context.Context) error { return n.auditFile.file.Close() })
	n.cfg.Service.Audit = slog.New(slog.NewJSONHandler(n.auditFile, nil))
	return nil
}

func (a *auditFile) reopen() error {
	file, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.file
	a.file = file
	if before == nil {
		return nil
	}
	return before.Close()
}

// Write implements io.Writer. A record that can't be written is told in the log of the node: what
// was asked for is done all the same.
func (a *auditFile) Write(record []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.file.Write(record)
	if err != nil {
		a.log.Error("the audit log can't be written", "file", a.path, "error", err, "record", string(record))
	}
	return n, err
}

// reopenAudit is for Reload.
func (n *Node) reopenAudit() {
	if n.auditFile == nil {
		return
	}
	if err := n.auditFile.reopen(); err != nil && !errors.Is(err, os.ErrClosed) {
		n.log.Error("the audit log could not be opened again; records go to the file that was open", "file", n.auditFile.path, "error", err)
	}
}
