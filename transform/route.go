package transform

import (
	"errors"
	"fmt"
	"strings"
)

func init() {
	Register(Definition{
		Name:  "route",
		Usage: "route(topic)",
		Doc: "Sends the record to this topic of the output cluster instead of the default output. " +
			"The topic has to exist; a later route in the chain overrides an earlier one.",
		Example: "route(orders-eu)",
		New:     newRoute,
	})
}

// route sets the topic a record is written to.
type route struct{ topic string }

func newRoute(arg string) (Transform, error) {
	topic, rest, err := firstText(arg, "")
	if err != nil {
		return nil, err
	}
	if rest != "" {
		return nil, fmt.Errorf("unexpected %q after the topic", rest)
	}
	if err := validTopic(topic); err != nil {
		return nil, err
	}
	return &route{topic: topic}, nil
}

func (t *route) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	out[len(out)-1].Target = t.topic
	return out, nil
}

// Targets names the topic, so that it can be looked up before the first record is read.
func (t *route) Targets() []string { return []string{t.topic} }

// maxTopicLength is Kafka's limit in bytes (org.apache.kafka.common.internals.Topic).
const maxTopicLength = 249

// validTopic applies Kafka's rule for topic names, and refuses the topics in which the
// brokers keep their own state.
func validTopic(topic string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if topic == "" {
		return errors.New("the topic is missing: write it between the parentheses")
	}
	if len(topic) > maxTopicLength {
		return fmt.Errorf("the topic %q is %d characters long: Kafka allows %d", topic, len(topic), maxTopicLength)
	}
	if bad := strings.Trim(topic, letters); bad != "" {
		return fmt.Errorf("the topic %q holds %q: Kafka allows letters, digits, dots, underscores and hyphens", topic, firstRune(bad))
	}
	switch topic {
	case ".", "..":
		return fmt.Errorf("the topic may not be %q: Kafka forbids it", topic)
	case "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata":
		return fmt.Errorf("the topic %q belongs to the brokers: choose another", topic)
	}
	return nil
}
