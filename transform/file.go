package transform

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

// maxArgumentFile bounds an argument that is taken from a file, in bytes.
const maxArgumentFile = 1 << 20

// argError is a constructor's complaint about one place of its argument: the parser turns
// it into a line and a column of the expression, or of the file the argument came from.
type argError struct {
	at  int // byte position in the argument
	err error
}

func (e *argError) Error() string { return e.err.Error() }
func (e *argError) Unwrap() error { return e.err }

// errAt locates a constructor's error at a byte position of its argument.
func errAt(at int, err error) error { return &argError{at, err} }

// errorIn locates the constructor's error err: in a file by the file's line and column, the
// expression's column being that of the "@"; else in the expression itself.
func (c call) errorIn(expr string, err error) error {
	var located *argError
	hasPlace := errors.As(err, &located)
	if c.file == "" {
		pos := c.argPos
		if hasPlace {
			pos += min(max(located.at, 0), len(c.arg))
		}
		return errorAt(expr, pos, fmt.Errorf("%s: %w", c.name, err))
	}
	if !hasPlace {
		return errorAt(expr, c.argPos, fmt.Errorf("%s: %s: %w", c.name, c.file, err))
	}
	line, column := lineAndColumn(c.content, c.skipped+min(max(located.at, 0), len(c.text)))
	return errorAt(expr, c.argPos, fmt.Errorf("%s: %s:%d:%d: %w", c.name, c.file, line, column, err))
}

// fetched returns the call with the argument that its transform shall see: as written, or
// from the file that it names with @. A quote in front makes the @ an ordinary character.
func (c call) fetched(expr string) (call, error) {
	c.text = c.arg
	path, isFile := strings.CutPrefix(c.arg, "@")
	if !isFile {
		return c, nil
	}
	content, err := readBounded(path, maxArgumentFile)
	if err != nil {
		return c, errorAt(expr, c.argPos, fmt.Errorf("%s: the argument begins with @ and so names a file, but %w (put it in quotes if no file is meant)", c.name, err))
	}
	c.file, c.content = path, string(content)
	body := strings.TrimPrefix(c.content, "\ufeff")
	c.skipped = len(c.content) - len(body)
	trimmed := strings.TrimLeftFunc(body, unicode.IsSpace)
	c.skipped += len(body) - len(trimmed)
	c.text = strings.TrimSpace(trimmed)
	return c, nil
}

// readBounded reads a file of at most limit bytes. Only a regular file will do: the others
// may give another content the next time, or never end.
func readBounded(path string, limit int64) ([]byte, error) {
	if path == "" {
		return nil, errors.New("the name of the file is missing")
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return content, nil
}
