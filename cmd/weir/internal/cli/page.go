package cli

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/web"
)

// Page is the flag --html, and the file that it names: a report as one page for a browser.
type Page struct {
	path string
	file *os.File
}

// Define defines the flag.
func (p *Page) Define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.path, "html", "", "write the report to this file too, as one page with charts that needs no server")
}

// Create makes the file, if one is named, apart from those that are read or written. The work is long: what is
// wrong with it is told before.
func (p *Page) Create(w *World, others []string) (_ *Page, err error) {
	if p.path != "" {
		p.file, err = CreateApart("--html", p.path, w.Stdin, others)
	}
	return p, err
}

// Write writes the report and closes the file.
func (p *Page) Write(kind, version string, report any) error {
	if p.file == nil {
		return nil
	}
	return errors.Join(web.Report(p.file, kind, version, time.Now(), report), p.Close())
}

// Close closes the file.
func (p *Page) Close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
