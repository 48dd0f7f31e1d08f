package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

const (
	fileSuffix = "_FILE"
	// maxSecretFile bounds what is read from a file that should hold a secret, in bytes.
	maxSecretFile = 64 << 10
)

// Check examines a configuration that was read, for problems that this room cannot see, such as the syntax of the
// transforms. It must bear with values that could not be read or break a law: the former are zero. What it says of a
// variable that is known to be wrong is dropped.
type Check func(*Config) []Problem

// Load reads the configuration from environ, which it does not alter; nothing else of the process's environment
// counts. The host name gives the default instance id. The checks run with the laws of this room, so that
// all problems are reported together.
//
// The error, if any, is a *Problems.
func Load(environ map[string]string, hostname string, checks ...Check) (*Config, error) {
	r := &report{bad: map[string]bool{}}
	values, origins := gather(environ, r)
	c := &Config{}
	parse(c, values, r)
	requireAll(environ, values, r)
	c.derive(hostname, r)
	c.obeyLaws(r)
	for _, check := range checks {
		for _, problem := range check(c) {
			if r.usable(problem.Variable) { // else it has been said
				r.list = append(r.list, problem)
			}
		}
	}
	checkNames(environ, r)
	c.settings = c.describe(values, origins)
	if len(r.list) > 0 {
		return nil, &Problems{List: r.list, Read: c}
	}
	return c, nil
}

// gather returns the text of every known variable that is set, tidied up, and where it came from. It always
// returns a map: the parser takes a nil one as leave to read the process's environment.
func gather(environ map[string]string, r *report) (values, origins map[string]string) {
	values, origins = map[string]string{}, map[string]string{}
	for _, v := range variables() {
		text, origin := environ[v.name], "environment"
		switch {
		case v.secret():
			text, origin = secretText(environ, v.name, r)
		case v.kind.Kind() == reflect.Slice:
			text = strings.Join(splitList(text), ",")
		default:
			text = strings.TrimSpace(text)
		}
		if text != "" {
			values[v.name], origins[v.name] = text, origin
		}
	}
	return values, origins
}

// secretText returns a secret from its variable or from the file named by the variable with _FILE.
func secretText(environ map[string]string, name string, r *report) (text, origin string) {
	path := strings.TrimSpace(environ[name+fileSuffix])
	if path == "" {
		return environ[name], "environment"
	}
	if environ[name] != "" {
		r.add(name, "set together with %s%s: unset one of them", name, fileSuffix)
		return "", ""
	}
	text, err := readSecret(path)
	if err != nil {
		r.add(name+fileSuffix, "%v", err)
		r.bad[name] = true
		return "", ""
	}
	return text, originFile + path
}

func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%q cannot be read (%w): correct the path or the file's permissions", path, bare(err))
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", fmt.Errorf("%q cannot be read (%w): correct the path or the file's permissions", path, bare(err))
	}
	if len(text) > maxSecretFile {
		return "", fmt.Errorf("%q holds more than %d bytes: name the file that holds the secret alone", path, maxSecretFile)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("%q is empty: write the secret into it", path)
	}
	return secret, nil
}

// bare strips the path from a file error, for messages that name it already.
func bare(err error) error {
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// parse fills c. Each group is parsed by itself: the parser's errors name only the Go field, which is unique
// within one group.
func parse(c *Config, values map[string]string, r *report) {
	byField := map[int]map[string]variable{}
	for _, v := range variables() {
		if byField[v.group] == nil {
			byField[v.group] = map[string]variable{}
		}
		byField[v.group][v.goName] = v
	}
	whole := reflect.ValueOf(c).Elem()
	for group, fields := range byField {
		prefix := whole.Type().Field(group).Tag.Get("envPrefix")
		err := env.ParseWithOptions(whole.Field(group).Addr().Interface(), env.Options{Environment: values, Prefix: prefix})
		for _, err := range unjoin(err) {
			var failed env.ParseError
			if !errors.As(err, &failed) {
				// The tags are at fault, which TestTags rules out. The text may quote a value: it is not shown.
				r.add(prefix+"*", "cannot be parsed (%T)", err)
				continue
			}
			v := fields[failed.Name]
			r.add(v.name, "%s %s", quote(v, values[v.name]), v.complaint(failed.Err))
		}
	}
	for _, v := range variables() {
		if len(v.oneof) > 0 {
			c.settleWord(v, r)
		}
	}
	// The groups were taken in random order.
	order := map[string]int{}
	for i, v := range variables() {
		order[v.name] = i
	}
	slices.SortStableFunc(r.list, func(a, b Problem) int { return order[a.Variable] - order[b.Variable] })
}

func unjoin(err error) []error {
	var all env.AggregateError
	if errors.As(err, &all) {
		return all.Errors
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// quote shows a value in a message, a secret masked.
func quote(v variable, text string) string {
	if v.secret() {
		return mask
	}
	return fmt.Sprintf("%q", text)
}

// complaint words why a value could not be parsed, and the remedy. Only our own types' errors are shown.
func (v variable) complaint(err error) string {
	if v.secret() {
		return "cannot be used"
	}
	switch v.kind {
	case reflect.TypeFor[time.Duration]():
		return "is not a duration: write a number with a unit, such as 100ms, 15s or 1m"
	case reflect.TypeFor[bool]():
		return "is not a yes or no: write true or false"
	case reflect.TypeFor[int]():
		return "is not a whole number in range: write one, such as 20"
	case reflect.TypeFor[Bytes](), reflect.TypeFor[Topics](), reflect.TypeFor[Address]():
		return err.Error()
	}
	return "cannot be used"
}

// settleWord replaces a word by its canonical spelling.
func (c *Config) settleWord(v variable, r *report) {
	field := v.of(c)
	text := field.String()
	if text == "" {
		return
	}
	for _, word := range v.oneof {
		if strings.EqualFold(word, text) {
			field.SetString(word)
			return
		}
	}
	near := ""
	if word := Nearest(strings.ToLower(text), lower(v.oneof)); word != "" {
		for _, w := range v.oneof {
			if strings.EqualFold(w, word) {
				near = fmt.Sprintf("; did you mean %s?", w)
			}
		}
	}
	r.add(v.name, "%q is not known: write one of %s%s", text, strings.Join(v.oneof, ", "), near)
}

func lower(words []string) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = strings.ToLower(w)
	}
	return list
}

// requireAll reports the variables without a default that are not set.
func requireAll(environ, values map[string]string, r *report) {
	for _, v := range variables() {
		if !v.required || values[v.name] != "" || r.bad[v.name] {
			continue
		}
		hint := ""
		if v.name == "KAFKA_BOOTSTRAP_SERVERS" && environ["KAFKA_BROKERS"] != "" {
			hint = " (KAFKA_BROKERS is set, which is not read here)"
		}
		r.add(v.name, "not set%s: set it, for example %s=%s", hint, v.name, v.example)
	}
}

// derive fills in the defaults that depend on other values or on the machine.
// leastMaxInterval is what epochs may grow to while catching up, when nothing else is said: longer ones save little.
const leastMaxInterval = 100 * time.Millisecond

func (c *Config) derive(hostname string, r *report) {
	b := &c.Bridge
	if b.InstanceID == "" {
		b.InstanceID, _, _ = strings.Cut(hostname, ".")
		if b.InstanceID == "" {
			r.add("BRIDGE_INSTANCE_ID", "not set, and the host name is unknown: set it, for example BRIDGE_INSTANCE_ID=bridge-0")
		}
	}
	if b.TxnPrefix == "" {
		b.TxnPrefix = b.GroupID
	}
	if b.Lanes == 0 && !r.bad["BRIDGE_LANES"] {
		b.Lanes = runtime.GOMAXPROCS(0)
	}
	if b.EpochMaxInterval == 0 {
		b.EpochMaxInterval = max(b.EpochInterval, leastMaxInterval)
	}
	if c.Kafka.ClientID == "" {
		c.Kafka.ClientID = "eosbridge-" + b.InstanceID
	}
}
