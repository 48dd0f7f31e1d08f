//go:build wasip1

// A guest built with the SDK of Redpanda's Data Transforms: a record whose value is "panic" panics, "error" is refused,
// "env" gives the environment, the clock, the record's time and how many records came before it, "two" becomes two
// records, of which the second goes to the topic other; all others pass as they are.
//
//	GOOS=wasip1 GOARCH=wasm go build -o redpanda.wasm .
package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redpanda-data/redpanda/src/transform-sdk/go/transform"
)

var served int64

func main() { transform.OnRecordWritten(work) }

func work(e transform.WriteEvent, w transform.RecordWriter) error {
	r := e.Record()
	defer func() { served++ }()
	switch string(r.Value) {
	case "panic":
		panic("asked to")
	case "error":
		return errors.New("asked to refuse")
	case "env":
		number := func(n int64) string { return strconv.FormatInt(n, 10) }
		said := []string{strings.Join(os.Environ(), ","), number(time.Now().UnixMilli()), number(r.Timestamp.UnixMilli()), number(served)}
		return w.Write(transform.Record{Value: []byte(strings.Join(said, "|"))})
	case "two":
		return errors.Join(w.Write(transform.Record{Value: []byte("one")}), w.Write(transform.Record{Value: r.Value}, transform.ToTopic("other")))
	default:
		return w.Write(r)
	}
}
