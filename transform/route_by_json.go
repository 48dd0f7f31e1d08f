package transform

import (
	"errors"
	"fmt"
	"slices"
)

func init() {
	Register(Definition{
		Name:  "route_by_json",
		Usage: "route_by_json(path, value=topic, ..., *=topic)",
		Doc: "Sends the record to the topic that the table gives for a field of the JSON value: the characters of a string, anything else as it is written. " +
			"* stands for every other value, and for a record without the field or with a null value; without it those go where they would have gone. " +
			"A value that holds a comma or =, or is a star, is put in quotes. All topics have to exist. A long table can be read from a file: route_by_json(@file).",
		Example: "route_by_json(region, eu=orders-eu, us=orders-us, *=orders-other)",
		New:     newRouteByJSON,
	})
}

// routes is a table of topics.
type routes struct {
	topics    map[string]string
	otherwise string // empty: none
}

// routeByJSON chooses the topic by a field.
type routeByJSON struct {
	path path
	routes
}

func newRouteByJSON(arg string) (Transform, error) {
	r := argReader{arg: arg}
	p, err := r.onePath()
	if err != nil {
		return nil, err
	}
	more, err := r.comma()
	if err != nil {
		return nil, err
	}
	if !more {
		return nil, errors.New("the table is missing: write value=topic after the path")
	}
	table, err := r.routes("the value")
	return &routeByJSON{p, table}, err
}

// routes reads a list of key=topic.
func (r *argReader) routes(key string) (routes, error) {
	table := routes{topics: map[string]string{}}
	for more := true; more; {
		r.space()
		start := r.at
		value, quoted, err := r.word(key, "=,")
		if err != nil {
			return table, err
		}
		if err := r.equals(); err != nil {
			return table, err
		}
		r.space()
		topicAt := r.at
		topic, _, err := r.word("the topic", ",")
		if err != nil {
			return table, err
		}
		if err := validTopic(topic); err != nil {
			return table, errAt(topicAt, err)
		}
		others := value == "*" && !quoted
		_, known := table.topics[value]
		if others {
			known = table.otherwise != ""
		}
		switch {
		case known:
			return table, errAt(start, fmt.Errorf("%q has two topics: remove one", value))
		case others:
			table.otherwise = topic
		default:
			table.topics[value] = topic
		}
		if more, err = r.comma(); err != nil {
			return table, err
		}
	}
	return table, nil
}

// Targets names all topics of the table.
func (t *routes) Targets() []string {
	var all []string
	for _, topic := range t.topics {
		all = append(all, topic)
	}
	if t.otherwise != "" {
		all = append(all, t.otherwise)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// send appends in with a topic, or with the one it had if the topic is empty.
func send(in *Record, out []Record, topic string) []Record {
	out = append(out, *in)
	if topic != "" {
		out[len(out)-1].Target = topic
	}
	return out
}

func (t *routeByJSON) Apply(in *Record, out []Record) ([]Record, error) {
	topic := t.otherwise
	if in.Value == nil {
		return send(in, out, topic), nil
	}
	root, err := jsonRoot(in.Value)
	if err != nil {
		return nil, err
	}
	if start, end, found := t.path.find(in.Value, root); found {
		value := in.Value[start:end]
		if value[0] == '"' {
			value = jsonText(value)
		}
		if listed, known := t.topics[string(value)]; known {
			topic = listed
		}
	}
	return send(in, out, topic), nil
}
