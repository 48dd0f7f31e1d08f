package transform

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

func init() {
	Register(Definition{
		Name:  "jq",
		Usage: "jq(program)",
		Doc: "Makes of each value what a program in jq makes of it: as many records as it gives results, none if it gives none. " +
			"Key, headers and timestamp stay; the program sees them as $key, $headers, $topic, $partition, $offset and $timestamp (milliseconds). " +
			"Numbers that are not computed with keep their text; the fields of an object are written in the order of their names and without space. " +
			"A value that is no JSON, names a field twice or is no UTF-8 is an error; a tombstone passes as it is.",
		Example: "jq({id, total: (.price * .count)})",
		New:     newJQ,
	})
}

// jqVariables are what a program knows of the record besides the value.
var jqVariables = []string{"$key", "$headers", "$topic", "$partition", "$offset", "$timestamp"} //nolint:gochecknoglobals // a table

// jqProgram reshapes values.
type jqProgram struct {
	code    *gojq.Code
	meter   *jqMeter
	uses    []bool // of jqVariables
	context []any  // their values for the record at hand
	reader  jqReader
	writer  jqWriter
}

func newJQ(arg string) (Transform, error) {
	if strings.TrimSpace(arg) == "" {
		return nil, errors.New("the program is missing: write it between the parentheses")
	}
	if len(arg) > celMaxExpression {
		return nil, fmt.Errorf("the program has %d bytes: jq takes %d", len(arg), celMaxExpression)
	}
	query, err := guardedJQ(arg)
	if err != nil {
		return nil, err
	}
	t := &jqProgram{meter: newJQMeter(), uses: make([]bool, len(jqVariables)), context: make([]any, len(jqVariables))}
	for i, name := range jqVariables {
		t.uses[i] = strings.Contains(arg, name)
	}
	t.code, err = gojq.Compile(query, append(t.meter.options(), gojq.WithVariables(jqVariables))...)
	if err != nil {
		return nil, errAt(jqErrorPlace(arg, err), err)
	}
	return t, nil
}

// jqErrorPlace finds the name that a compiler's error is about.
func jqErrorPlace(program string, err error) int {
	name := regexp.MustCompile(`: (\S+?)(/\d+)?$`).FindStringSubmatch(err.Error())
	if name == nil {
		return 0
	}
	return jqWord(program, name[1])
}

func (t *jqProgram) Apply(in *Record, out []Record) ([]Record, error) {
	if in.Value == nil {
		return append(out, *in), nil
	}
	value, err := t.reader.read(in.Value)
	if err != nil {
		return out, err
	}
	if err := t.look(in); err != nil {
		return out, err
	}
	t.meter.reset()
	defer clear(t.context)
	results := out
	for iter, size := t.code.RunWithContext(t.meter, value, t.context...), 0; ; {
		result, more := iter.Next()
		if !more {
			return results, nil
		}
		if err, failed := result.(error); failed {
			return out, t.failure(err)
		}
		if len(results)-len(out) == jqResults {
			return out, fmt.Errorf("jq gave more than %d results", jqResults)
		}
		changed := *in
		if changed.Value, err = t.writer.write(result); err != nil {
			return out, err
		}
		if size += len(changed.Value); size > jqWeight {
			return out, fmt.Errorf("the results of jq are larger than %d bytes", jqWeight)
		}
		results = append(results, changed)
	}
}

// look fills in the variables that the program asks for.
func (t *jqProgram) look(in *Record) error {
	if t.uses[0] {
		if !utf8.Valid(in.Key) {
			return errors.New("the key is no UTF-8: jq would replace some of it")
		}
		if in.Key != nil {
			t.context[0] = string(in.Key)
		}
	}
	if t.uses[1] {
		headers := make(map[string]any, len(in.Headers))
		for _, header := range in.Headers { // the last of a name counts, as in Kafka's clients
			if headers[header.Key] = nil; header.Value != nil {
				headers[header.Key] = string(header.Value)
			}
		}
		t.context[1] = headers
	}
	if t.uses[2] {
		t.context[2] = in.Topic
	}
	if t.uses[3] {
		t.context[3] = int(in.Partition)
	}
	if t.uses[4] {
		t.context[4] = int(in.Offset)
	}
	if t.uses[5] {
		t.context[5] = int(in.Timestamp.UnixMilli())
	}
	return nil
}

// maxJQError bounds an error's text: a program may put a whole record into it.
const maxJQError = 500

func (t *jqProgram) failure(err error) error {
	if t.meter.spent != nil {
		return t.meter.spent
	}
	text := err.Error()
	if len(text) > maxJQError {
		text = strings.ToValidUTF8(text[:maxJQError], "") + "…"
	}
	return errors.New(text)
}
