package transform

import (
	"fmt"
	"strings"
)

// argReader reads an argument that is a list from left to right. Its errors say where in the
// argument they are.
type argReader struct {
	arg string
	at  int
}

func (r *argReader) fail(format string, values ...any) error {
	return errAt(r.at, fmt.Errorf(format, values...))
}

func (r *argReader) space() { r.at = skipSpace(r.arg, r.at) }

func (r *argReader) done() bool {
	r.space()
	return r.at == len(r.arg)
}

// take steps over the token if it stands next.
func (r *argReader) take(token string) bool {
	r.space()
	if !strings.HasPrefix(r.arg[r.at:], token) {
		return false
	}
	r.at += len(token)
	return true
}

// path reads the path of a field.
func (r *argReader) path() (path, error) {
	r.space()
	p, length, err := cutPath(r.arg[r.at:])
	r.at += length
	if err != nil {
		return nil, errAt(r.at, err)
	}
	return p, nil
}

// onePath reads the path of one value: without [*].
func (r *argReader) onePath() (path, error) {
	r.space()
	start := r.at
	p, err := r.path()
	for _, s := range p {
		if s.every {
			return nil, errAt(start, fmt.Errorf("%s leads to more than one value: name one element", p))
		}
	}
	return p, err
}

// word reads a piece of text: quoted, or up to one of the bytes in stop.
func (r *argReader) word(what, stop string) (text string, quoted bool, err error) {
	r.space()
	rest := r.arg[r.at:]
	quoted = rest != "" && strings.IndexByte("\"'`", rest[0]) >= 0
	text, left, err := firstText(rest, stop)
	if err != nil {
		return "", quoted, errAt(r.at, err)
	}
	if text == "" && !quoted {
		return "", false, r.fail("%s is missing", what)
	}
	r.at = len(r.arg) - len(left)
	return text, quoted, nil
}

// equals steps over the "=" that has to stand next.
func (r *argReader) equals() error {
	if !r.take("=") {
		return r.unexpected(`put "=" here`)
	}
	return nil
}

// comma tells whether the list goes on.
func (r *argReader) comma() (more bool, err error) {
	if r.done() {
		return false, nil
	}
	if !r.take(",") {
		return false, r.unexpected(`put "," between two items`)
	}
	return true, nil
}

// end is the check that nothing follows.
func (r *argReader) end() error {
	if !r.done() {
		return r.unexpected("remove it")
	}
	return nil
}

func (r *argReader) unexpected(remedy string) error {
	if r.done() {
		return r.fail("the argument ends early: %s", remedy)
	}
	return r.fail("unexpected %q: %s", firstRune(r.arg[r.at:]), remedy)
}

// option tells whether "name:" stands next, and steps over it.
func (r *argReader) option(name string) bool {
	start := r.at
	if r.take(name) && r.take(":") {
		return true
	}
	r.at = start
	return false
}

// json reads the rest of the argument as a JSON value.
func (r *argReader) json() ([]byte, error) {
	r.space()
	text := []byte(r.arg[r.at:])
	if len(text) == 0 {
		return nil, r.fail("the value is missing")
	}
	if _, err := jsonRoot(text); err != nil {
		return nil, r.fail(`%w (a value is JSON: text stands in double quotes, "like this")`, err)
	}
	return text, nil
}
