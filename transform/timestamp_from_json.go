package transform

import (
	"errors"
	"fmt"
	"time"
)

func init() {
	Register(Definition{
		Name:  "timestamp_from_json",
		Usage: "timestamp_from_json(path, format)",
		Doc: "Makes a field of the JSON value the record's timestamp, in whole milliseconds. The format is unix, unix_ms, unix_us or unix_ns for seconds or parts of them since 1970, as a number or a string, " +
			"rfc3339, or a layout of Go in quotes; a layout without a zone means UTC. " +
			"A record without the field, with null in it or as its value, keeps its timestamp; one with anything else, or a time before 1970, is refused. " +
			"The output topic has to have message.timestamp.type=CreateTime.",
		Example: "timestamp_from_json(created_at, rfc3339)",
		New:     newTimestampFromJSON,
	})
}

// timestampFromJSON sets the timestamp to a field.
type timestampFromJSON struct {
	path   path
	format timeFormat
}

func newTimestampFromJSON(arg string) (Transform, error) {
	r := argReader{arg: arg}
	p, err := r.onePath()
	if err != nil {
		return nil, err
	}
	if !r.take(",") {
		return nil, r.unexpected(`write "," and the format of the time after the path`)
	}
	format, err := r.timeFormat()
	if err != nil {
		return nil, err
	}
	return &timestampFromJSON{p, format}, r.end()
}

var errBefore1970 = errors.New("is before 1970: a record of Kafka has no timestamp for it")

func (t *timestampFromJSON) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	if in.Value == nil {
		return out, nil
	}
	root, err := jsonRoot(in.Value)
	if err != nil {
		return nil, err
	}
	start, end, found := t.path.find(in.Value, root)
	if !found || in.Value[start] == 'n' {
		return out, nil
	}
	stamp, err := t.format.parse(in.Value[start:end])
	if err == nil && stamp.Unix() < 0 {
		err = errBefore1970
	}
	if err != nil {
		return nil, fmt.Errorf("%s %w (%s)", t.path, err, t.format.name)
	}
	out[len(out)-1].Timestamp = stamp.Truncate(time.Millisecond)
	return out, nil
}
