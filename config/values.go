package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size in bytes. Its text is a whole number with an optional unit: kB, MB, GB, TB count in thousands,
// KiB, MiB, GiB, TiB in 1024s; upper and lower case are the same.
type Bytes int64

// units returns the units of Bytes with their sizes, the binary ones from the largest to the smallest first:
// String uses the first that divides evenly.
func units() []struct {
	name string
	size int64
} {
	return []struct {
		name string
		size int64
	}{
		{"TiB", 1 << 40},
		{"GiB", 1 << 30},
		{"MiB", 1 << 20},
		{"KiB", 1 << 10},
		{"TB", 1e12},
		{"GB", 1e9},
		{"MB", 1e6},
		{"KB", 1e3},
		{"B", 1},
		{"", 1},
	}
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) error {
	const remedy = "write a whole number of bytes, or one with a unit such as 512MB or 64MiB"
	s := strings.TrimSpace(string(text))
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if err != nil {
		if errors.Is(err, strconv.ErrRange) {
			return errors.New("is too large a size")
		}
		return errors.New("is not a size: " + remedy)
	}
	unit := strings.TrimSpace(s[digits:])
	for _, u := range units() {
		if !strings.EqualFold(unit, u.name) {
			continue
		}
		if n > math.MaxInt64/u.size {
			return errors.New("is too large a size")
		}
		*b = Bytes(n * u.size)
		return nil
	}
	return errors.New("has an unknown unit: " + remedy)
}

// String returns the size with the largest binary unit that divides it, which UnmarshalText reads back.
func (b Bytes) String() string {
	for _, u := range units() {
		if b != 0 && u.size%1024 == 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// Address is a host:port to listen on; empty if switched off by the word off.
type Address string

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Address) UnmarshalText(text []byte) error {
	s := string(text)
	if strings.EqualFold(s, "off") {
		*a = ""
		return nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("is not an address to listen on: write host:port, :port, or off")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > math.MaxUint16 {
		return fmt.Errorf("has port %q: write a number from 1 to 65535, or 0 for any free port", port)
	}
	*a = Address(s)
	return nil
}

// String returns the text that UnmarshalText reads back.
func (a Address) String() string {
	if a == "" {
		return "off"
	}
	return string(a)
}

// MarshalText implements encoding.TextMarshaler.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Topics names the topics to read, by a list or by a regular expression, never both.
type Topics struct {
	names   []string
	pattern string
}

// Names returns the listed topics, each once, in the order given; nil if there is a pattern. The caller may
// alter the result.
func (t Topics) Names() []string { return slices.Clone(t.names) }

// Pattern returns the regular expression, RE2 and anchored at both ends; empty if the topics are listed.
func (t Topics) Pattern() string {
	if t.pattern == "" {
		return ""
	}
	return "^(?:" + t.pattern + ")$"
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Topics) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if len(s) > 1 && strings.HasPrefix(s, "/") && strings.HasSuffix(s, "/") {
		pattern := s[1 : len(s)-1]
		if pattern == "" {
			return errors.New("is an empty regular expression: write the topics' names, or for example /orders-.*/")
		}
		if _, err := regexp.Compile("^(?:" + pattern + ")$"); err != nil {
			return fmt.Errorf("is not a regular expression in RE2 syntax (%w): correct it", err)
		}
		*t = Topics{pattern: pattern}
		return nil
	}
	names := splitList(s)
	for i, name := range names {
		if err := validTopic(name); err != nil {
			return err
		}
		if internalTopic(name) {
			return fmt.Errorf("names %s, an internal topic of Kafka: remove it", name)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("names %s twice: remove one", name)
		}
	}
	*t = Topics{names: names}
	return nil
}

// String returns the text that UnmarshalText reads back.
func (t Topics) String() string {
	if t.pattern != "" {
		return "/" + t.pattern + "/"
	}
	return strings.Join(t.names, ",")
}

// MarshalText implements encoding.TextMarshaler.
func (t Topics) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// maxTopicLength is Kafka's limit (org.apache.kafka.common.internals.Topic).
const maxTopicLength = 249

// validTopic checks a name as Kafka does (org.apache.kafka.common.internals.Topic.validate).
func validTopic(name string) error {
	switch {
	case name == "":
		return errors.New("holds an empty topic name: remove it")
	case name == "." || name == "..":
		return fmt.Errorf("holds the topic name %q, which Kafka does not permit: rename it", name)
	case len(name) > maxTopicLength:
		return fmt.Errorf("holds a topic name of %d characters, Kafka permits %d: shorten it", len(name), maxTopicLength)
	}
	for _, c := range name {
		if !nameCharacter(c) && c != '.' {
			hint := ""
			if c == '/' {
				hint = "; a regular expression is written between slashes, alone: /orders-.*/"
			}
			return fmt.Errorf("holds the topic name %q with the character %q: use letters, digits, '.', '_' and '-'%s", name, c, hint)
		}
	}
	return nil
}

// internalTopic says whether a topic belongs to Kafka itself.
func internalTopic(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata":
		return true
	}
	return false
}

func nameCharacter(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// splitList splits at commas, trims and drops what is empty.
func splitList(s string) []string {
	var list []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// durationText prints 60s as 1m, where Duration's own String says 1m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
