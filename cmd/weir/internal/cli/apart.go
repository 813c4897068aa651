package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// CreateApart makes the file that a flag names, or empties the one that is there, unless it is one of those
// that are read: a slip of the shell's history must not cost a log.
func CreateApart(flag, path string, stdin io.Reader, read []string) (*os.File, error) {
	if path == "-" {
		return nil, Usage(fmt.Errorf("%s - is no file, and the report goes to the output: name a file", flag))
	}
	to, err := os.Stat(path)
	for _, name := range read {
		if from, missing := statRead(name, stdin); err == nil && missing == nil && os.SameFile(to, from) {
			return nil, Usage(fmt.Errorf("%s %s is a file that is read or written: name another one", flag, path))
		}
	}
	return os.Create(path)
}

// statRead is os.Stat, where - is the input, which may be a file too.
func statRead(name string, stdin io.Reader) (fs.FileInfo, error) {
	if file, ok := stdin.(*os.File); ok && name == "-" {
		return file.Stat()
	}
	return os.Stat(name)
}
