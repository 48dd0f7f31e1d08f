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
	return taking{&timestampFromJSON{p, format}}, r.end()
}

var errBefore1970 = errors.New("is before 1970: a record of Kafka has no timestamp for it")

func (t *timestampFromJSON) take(result *Record, doc []byte, root int) error {
	start, end, found := t.path.find(doc, root)
	if !found || doc[start] == 'n' {
		return nil
	}
	stamp, err := t.format.parse(doc[start:end])
	if err == nil && stamp.Unix() < 0 {
		err = errBefore1970
	}
	if err != nil {
		return fmt.Errorf("%s %w (%s)", t.path, err, t.format.name)
	}
	result.Timestamp = stamp.Truncate(time.Millisecond)
	return nil
}
