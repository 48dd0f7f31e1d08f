package transform

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

func init() {
	Register(Definition{
		Name:  "json_insert",
		Usage: "json_insert(path=source)",
		Doc: "Sets a field of the JSON value, as json_set does, to something the record says about itself: topic, partition, offset, timestamp (milliseconds since 1970), " +
			"key, or header.name. Key and header become strings; null or a header that is not there becomes null. " +
			"A key or header that is no UTF-8 is refused.",
		Example: "json_insert(meta.offset=offset)",
		New:     newJSONInsert,
	})
}

// jsonInsert sets a field to a property of the record.
type jsonInsert struct {
	place  place
	source string
	header string // if the source is one
}

func newJSONInsert(arg string) (Transform, error) {
	r := argReader{arg: arg}
	place, err := r.place()
	if err != nil {
		return nil, err
	}
	t := &jsonInsert{place: place}
	r.space()
	start := r.at
	if t.source, _, err = r.word("the source", ""); err != nil {
		return nil, err
	}
	if name, isHeader := strings.CutPrefix(t.source, "header."); isHeader {
		if t.source = "header"; name == "" {
			return nil, errAt(start, errors.New("the name of the header is missing: write header.name"))
		}
		if t.header, _, err = firstText(name, ""); err != nil {
			return nil, errAt(start, err)
		}
		return &editing{editor: t}, r.end()
	}
	switch t.source {
	case "topic", "partition", "offset", "timestamp", "key":
		return &editing{editor: t}, r.end()
	}
	return nil, errAt(start, fmt.Errorf("unknown source %q: use topic, partition, offset, timestamp, key or header.name", t.source))
}

func (t *jsonInsert) edit(in *Record, root int, e *edits) error {
	from := len(e.text)
	switch t.source {
	case "topic":
		e.text = appendQuoted(e.text, in.Topic)
	case "partition":
		e.text = strconv.AppendInt(e.text, int64(in.Partition), 10)
	case "offset":
		e.text = strconv.AppendInt(e.text, in.Offset, 10)
	case "timestamp":
		e.text = strconv.AppendInt(e.text, in.Timestamp.UnixMilli(), 10)
	default:
		bytes := in.Key
		if t.source == "header" {
			bytes = nil
			if _, last := countHeaders(in.Headers, t.header); last >= 0 {
				bytes = in.Headers[last].Value
			}
		}
		if !utf8.Valid(bytes) {
			return errors.New("the " + t.source + " is no UTF-8")
		}
		if bytes == nil {
			e.text = append(e.text, "null"...)
		} else {
			e.text = appendQuoted(e.text, bytes)
		}
	}
	return t.place.set(in.Value, root, 0, e.made(from), e)
}
