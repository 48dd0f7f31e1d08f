package transform

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

func init() {
	Register(Definition{
		Name:  "json_mask",
		Usage: "json_mask(path, ...) or json_mask(path, ..., with: value) or json_mask(path, ..., secret: file)",
		Doc: "Hides fields of the JSON value. Each becomes \"***\", or the JSON value after with:, or after secret: the HMAC-SHA-256 of what it holds, as 64 hexadecimal digits. " +
			"The hash is keyed with the content of the file, which is read at the start, without the line break at its end, and has to have 16 bytes at least; " +
			"hashed are the characters of a string, or anything else as it is written, so that equal values stay equal. " +
			"All fields of the name are hidden if the name repeats; what is not there is no error.",
		Example: "json_mask(card.number, items[*].note)",
		New:     newJSONMask,
	})
}

const (
	minSecret = 16      // bytes
	maxSecret = 1 << 16 // bytes
)

// jsonMask replaces values by a constant or by their keyed hash.
type jsonMask struct {
	fields *fields
	with   []byte
	secret []byte
	mac    hash.Hash // nil: the constant
	sum    [sha256.Size]byte
}

func newJSONMask(arg string) (Transform, error) {
	r := argReader{arg: arg}
	t := &jsonMask{with: []byte(`"***"`)}
	var paths []path
	for more := true; more; {
		var err error
		switch {
		case len(paths) > 0 && r.option("with"):
			t.with, err = r.json()
			more = false
		case len(paths) > 0 && r.option("secret"):
			err = t.readSecret(&r)
			more = false
		default:
			var p path
			if p, err = r.path(); err == nil {
				paths = append(paths, p)
				more, err = r.comma()
			}
		}
		if err != nil {
			return nil, err
		}
	}
	var err error
	if t.fields, err = newFields(paths); err != nil {
		return nil, err
	}
	return t.fresh(), nil
}

// readSecret never says what is in the file.
func (t *jsonMask) readSecret(r *argReader) error {
	r.space()
	start := r.at
	name, _, err := r.word("the name of the secret's file", ",")
	if err != nil {
		return err
	}
	if err := r.end(); err != nil {
		return err
	}
	secret, err := readBounded(name, maxSecret)
	if err != nil {
		return errAt(start, fmt.Errorf("the secret: %w", err))
	}
	secret = bytes.TrimSuffix(bytes.TrimSuffix(secret, []byte("\n")), []byte("\r"))
	if len(secret) < minSecret {
		return errAt(start, fmt.Errorf("the secret in %s has %d bytes: %d are needed, or what is hidden can be guessed", name, len(secret), minSecret))
	}
	t.secret = secret
	return nil
}

// maskEditing is the transform: it forks, so that all chains hash with the secret that was
// read first.
type maskEditing struct {
	editing
	mask *jsonMask
}

func (t *jsonMask) fresh() Transform {
	own := *t
	if own.secret != nil {
		own.mac = hmac.New(sha256.New, own.secret)
	}
	return &maskEditing{editing: editing{editor: &own}, mask: &own}
}

// Fork makes another instance with the same secret.
func (t *maskEditing) Fork() Transform { return t.mask.fresh() }

func (t *jsonMask) edit(in *Record, root int, e *edits) error {
	return t.fields.visit(in.Value, root, func(_ int, m jsonMember) error {
		if t.mac == nil {
			e.replace(in.Value, m.value, m.end, t.with)
			return nil
		}
		from := len(e.text)
		e.text = t.appendHash(e.text, in.Value[m.value:m.end])
		e.replace(in.Value, m.value, m.end, e.made(from))
		return nil
	})
}

func (t *jsonMask) appendHash(dst, raw []byte) []byte {
	if raw[0] == '"' {
		raw = jsonText(raw)
	}
	t.mac.Reset()
	t.mac.Write(raw)
	dst = append(dst, '"')
	dst = hex.AppendEncode(dst, t.mac.Sum(t.sum[:0]))
	return append(dst, '"')
}
