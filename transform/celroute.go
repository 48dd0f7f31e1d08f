package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

func init() {
	Register(Definition{
		Name:  "route_if",
		Usage: "route_if(topic: condition)",
		Doc: "Sends the records for which a condition in CEL holds to this topic; the others keep the output they have. " +
			"The condition is written as that of filter.",
		Example: `route_if(orders-eu: value.region == "eu")`,
		New:     newRouteIf,
	})
	Register(Definition{
		Name:  "route_to",
		Usage: "route_to(topic, topic: expression)",
		Doc: "Sends the record to the topic whose name an expression in CEL gives. It has to be one of those listed, so that all of them are known before the first record is read; " +
			"another name is an error, and an empty one leaves the record the output it has.",
		Example: `route_to(orders-eu, orders-us: "orders-" + value.region)`,
		New:     newRouteTo,
	})
}

// routeIf sets the topic of records for which an expression is true.
type routeIf struct {
	topic     string
	condition *celExpression
}

func newRouteIf(arg string) (Transform, error) {
	topics, expression, offset, err := routeArgument(arg)
	if err != nil {
		return nil, err
	}
	if len(topics) != 1 {
		return nil, fmt.Errorf("it takes one topic, but has %d: route_to chooses among several", len(topics))
	}
	condition, err := newCelExpression(expression, offset)
	if err != nil {
		return nil, err
	}
	return &routeIf{topics[0], condition}, condition.gives(offset, cel.BoolType)
}

func (t *routeIf) share(scan *celScan) { t.condition.vars.scan = scan }

func (t *routeIf) Apply(in *Record, out []Record) ([]Record, error) {
	holds, err := t.condition.condition(in)
	if err != nil {
		return out, err
	}
	out = append(out, *in)
	if holds {
		out[len(out)-1].Target = t.topic
	}
	return out, nil
}

// Targets names the topic.
func (t *routeIf) Targets() []string { return []string{t.topic} }

// routeTo sets the topic of a record to the result of an expression.
type routeTo struct {
	topics []string
	name   *celExpression
}

func newRouteTo(arg string) (Transform, error) {
	topics, expression, offset, err := routeArgument(arg)
	if err != nil {
		return nil, err
	}
	name, err := newCelExpression(expression, offset)
	if err != nil {
		return nil, err
	}
	return &routeTo{topics, name}, name.gives(offset, cel.StringType)
}

func (t *routeTo) share(scan *celScan) { t.name.vars.scan = scan }

func (t *routeTo) Apply(in *Record, out []Record) ([]Record, error) {
	defer t.name.release()
	result, err := t.name.eval(in)
	if err != nil {
		return out, err
	}
	name, ok := result.(types.String)
	if !ok {
		return out, fmt.Errorf("the expression gave a %s, want the name of a topic", result.Type().TypeName())
	}
	target := in.Target
	if name != "" {
		at := slices.Index(t.topics, string(name))
		if at < 0 {
			return out, fmt.Errorf("the topic %.*q is not among those listed", maxTopicLength, string(name))
		}
		target = t.topics[at]
	}
	out = append(out, *in)
	out[len(out)-1].Target = target
	return out, nil
}

// Targets names the topics listed.
func (t *routeTo) Targets() []string { return t.topics }

// routeArgument splits "topic, topic: expression". No topic holds a colon.
func routeArgument(arg string) (topics []string, expression string, offset int, err error) {
	list, expression, found := strings.Cut(arg, ":")
	if !found {
		return nil, "", 0, errors.New("write the topics, a colon and the expression")
	}
	for topic := range strings.SplitSeq(list, ",") {
		topic = strings.TrimSpace(topic)
		if err := validTopic(topic); err != nil {
			return nil, "", 0, err
		}
		topics = append(topics, topic)
	}
	return topics, expression, len(list) + 1, nil
}
