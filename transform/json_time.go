package transform

import (
	"fmt"
)

func init() {
	Register(Definition{
		Name:  "json_time",
		Usage: "json_time(path, from, to)",
		Doc: "Writes a time in a field of the JSON value in another format. The formats are those of timestamp_from_json; what is written is in UTC, numbers whole and rounded down. " +
			"Null stays, and what is not there is no error; anything else that is no time in the first format is refused.",
		Example: "json_time(created_at, unix_ms, rfc3339)",
		New:     newJSONTime,
	})
}

// jsonTime converts times in fields.
type jsonTime struct {
	path     path
	fields   *fields
	from, to timeFormat
}

func newJSONTime(arg string) (Transform, error) {
	r := argReader{arg: arg}
	p, err := r.path()
	if err != nil {
		return nil, err
	}
	t := &jsonTime{path: p}
	for _, format := range []*timeFormat{&t.from, &t.to} {
		if !r.take(",") {
			return nil, r.unexpected(`write the path, "," the format it has, "," the format it shall have`)
		}
		if *format, err = r.timeFormat(); err != nil {
			return nil, err
		}
	}
	if t.fields, err = newFields([]path{p}); err != nil {
		return nil, err
	}
	return &editing{editor: t}, r.end()
}

func (t *jsonTime) edit(in *Record, root int, e *edits) error {
	doc := in.Value
	return t.fields.visit(doc, root, func(_ int, m jsonMember) error {
		if doc[m.value] == 'n' {
			return nil
		}
		at, err := t.from.parse(doc[m.value:m.end])
		if err != nil {
			return fmt.Errorf("%s %w (%s)", t.path, err, t.from.name)
		}
		from := len(e.text)
		text := t.to.append(e.text, at)
		if text == nil {
			return fmt.Errorf("%s does not fit into 64 bits (%s)", t.path, t.to.name)
		}
		e.text = text
		e.replace(doc, m.value, m.end, e.made(from))
		return nil
	})
}
