package config

import (
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// obeyLaws reports values that can be read but cannot work, alone or together.
func (c *Config) obeyLaws(r *report) {
	c.Kafka.obeyBrokers(r)
	c.Kafka.obeySecurity(r)
	if c.Kafka.SASLMechanism == MechanismMSKIAM && c.Kafka.UsesSASL() {
		c.AWS.obeyCredentials(r)
	}
	c.SchemaRegistry.obeySchemas(schemaPrefix, r)
	c.TargetSchemaRegistry.obeySchemas(targetSchemaPrefix, r)
	c.obeyTracing(r)
	c.Bridge.obeyTopics(r)
	c.Bridge.obeyErrors(r)
	c.Bridge.obeyStart(r)
	c.Bridge.obeyIdentity(r)
	c.Bridge.obeyRanges(r)
	c.Bridge.obeyTimeouts(r)
}

func (k *Kafka) obeyBrokers(r *report) {
	const name = "KAFKA_BOOTSTRAP_SERVERS"
	if !r.usable(name) {
		return
	}
	for _, broker := range k.BootstrapServers {
		host, port, err := net.SplitHostPort(broker)
		n, _ := strconv.ParseUint(port, 10, 16)
		switch {
		case strings.Contains(broker, "@"):
			// The value is not shown: before the @ there may be a password.
			r.add(name, "holds an @: write host:port alone, and who we are in KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD")
		case strings.Contains(broker, "://"):
			r.add(name, "%q has a scheme: write host:port, and choose TLS and SASL by KAFKA_SECURITY_PROTOCOL", broker)
		case err != nil && !strings.Contains(broker, ":"):
			r.add(name, "%q has no port: write host:port, such as %s:9092", broker, broker)
		case err != nil:
			r.add(name, "%q is not host:port: write a host or [IPv6 address], a colon and a port", broker)
		case host == "":
			r.add(name, "%q has no host: write host:port", broker)
		case n == 0:
			r.add(name, "%q has port %q: write a number from 1 to 65535", broker, port)
		}
	}
}

func (k *Kafka) obeySecurity(r *report) {
	if !r.usable("KAFKA_SECURITY_PROTOCOL", "KAFKA_SASL_MECHANISM") {
		return
	}
	k.obeyTLS(r)
	if !k.UsesSASL() {
		// Credentials that are given and not used hint at a connection less safe than was meant.
		for _, s := range []struct {
			name string
			set  bool
		}{
			{"KAFKA_SASL_MECHANISM", k.SASLMechanism != ""},
			{"KAFKA_SASL_USERNAME", k.SASLUsername != ""},
			{"KAFKA_SASL_PASSWORD", k.SASLPassword != ""},
			{"KAFKA_SASL_OAUTH_TOKEN_FILE", k.OAuthTokenFile != ""},
			{"KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", k.OAuthTokenEndpoint != ""},
			{"KAFKA_SASL_OAUTH_CLIENT_SECRET", k.OAuthClientSecret != ""},
		} {
			if s.set {
				r.add(s.name, "set, but KAFKA_SECURITY_PROTOCOL=%s does not authenticate: set KAFKA_SECURITY_PROTOCOL=SASL_SSL (or SASL_PLAINTEXT), or unset this", k.SecurityProtocol)
			}
		}
		return
	}
	switch k.SASLMechanism {
	case MechanismPlain, MechanismScramSHA256, MechanismScramSHA512:
		k.obeyPassword(r)
	case MechanismOAuthBearer:
		k.obeyOAuth(r)
	case MechanismMSKIAM: // AWS.obeyCredentials
	default:
		r.add("KAFKA_SASL_MECHANISM", "not set, but KAFKA_SECURITY_PROTOCOL=%s authenticates: set one of %s, %s, %s, %s, %s", k.SecurityProtocol,
			MechanismPlain, MechanismScramSHA256, MechanismScramSHA512, MechanismOAuthBearer, MechanismMSKIAM)
		return
	}
	scram := k.SASLMechanism == MechanismScramSHA256 || k.SASLMechanism == MechanismScramSHA512
	if !k.UsesTLS() && !scram && !k.SASLAllowPlaintext && r.usable("KAFKA_SASL_ALLOW_PLAINTEXT") {
		r.add("KAFKA_SECURITY_PROTOCOL", "%q with KAFKA_SASL_MECHANISM=%s shows the credentials to the network: set KAFKA_SECURITY_PROTOCOL=SASL_SSL, or permit it by KAFKA_SASL_ALLOW_PLAINTEXT=true", k.SecurityProtocol, k.SASLMechanism)
	}
}

func (k *Kafka) obeyTLS(r *report) {
	for _, s := range []struct{ name, path string }{
		{"KAFKA_TLS_CA_FILE", k.TLSCAFile}, {"KAFKA_TLS_CERT_FILE", k.TLSCertFile}, {"KAFKA_TLS_KEY_FILE", k.TLSKeyFile},
	} {
		switch {
		case s.path == "":
		case !k.UsesTLS():
			r.add(s.name, "set, but KAFKA_SECURITY_PROTOCOL=%s does not use TLS: set KAFKA_SECURITY_PROTOCOL to SSL or SASL_SSL, or unset this", k.SecurityProtocol)
		default:
			readable(s.name, s.path, r)
		}
	}
	if !k.UsesTLS() {
		return
	}
	if k.TLSCertFile != "" && k.TLSKeyFile == "" {
		r.add("KAFKA_TLS_KEY_FILE", "not set, but KAFKA_TLS_CERT_FILE is: set both or neither")
	}
	if k.TLSCertFile == "" && k.TLSKeyFile != "" {
		r.add("KAFKA_TLS_CERT_FILE", "not set, but KAFKA_TLS_KEY_FILE is: set both or neither")
	}
}

// readable reports a file that cannot be opened now, which is better known at start than at the first connection.
func readable(name, path string, r *report) {
	f, err := os.Open(path)
	if err != nil {
		r.add(name, "%q cannot be read (%v): correct the path or the file's permissions", path, bare(err))
		return
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		r.add(name, "%q is a directory: name the file", path)
	}
}

func (k *Kafka) obeyPassword(r *report) {
	if k.SASLUsername == "" {
		r.add("KAFKA_SASL_USERNAME", "not set: KAFKA_SASL_MECHANISM=%s needs it", k.SASLMechanism)
	}
	if k.SASLPassword == "" && r.usable("KAFKA_SASL_PASSWORD") {
		r.add("KAFKA_SASL_PASSWORD", "not set: KAFKA_SASL_MECHANISM=%s needs it, or KAFKA_SASL_PASSWORD_FILE with the path of a file that holds it", k.SASLMechanism)
	}
}

func (k *Kafka) obeyOAuth(r *report) {
	switch {
	case k.OAuthTokenFile != "" && k.OAuthTokenEndpoint != "":
		r.add("KAFKA_SASL_OAUTH_TOKEN_FILE", "set together with KAFKA_SASL_OAUTH_TOKEN_ENDPOINT: unset one of them")
	case k.OAuthTokenFile != "":
		readable("KAFKA_SASL_OAUTH_TOKEN_FILE", k.OAuthTokenFile, r)
	case k.OAuthTokenEndpoint == "":
		r.add("KAFKA_SASL_OAUTH_TOKEN_FILE", "not set: KAFKA_SASL_MECHANISM=OAUTHBEARER needs it, or KAFKA_SASL_OAUTH_TOKEN_ENDPOINT with a client id and secret")
	default:
		k.obeyTokenEndpoint(r)
	}
}

func (k *Kafka) obeyTokenEndpoint(r *report) {
	const name = "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT"
	u, err := url.Parse(k.OAuthTokenEndpoint)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		// The value is not shown: a URL may hold a password, and this one could not be taken apart.
		r.add(name, "not a URL with a host: write one such as https://login.example.com/oauth2/token")
	case u.User != nil:
		r.add(name, "%q holds credentials: move them to KAFKA_SASL_OAUTH_CLIENT_ID and KAFKA_SASL_OAUTH_CLIENT_SECRET", u.Redacted())
	case u.Scheme == "http" && !k.SASLAllowPlaintext:
		r.add(name, "%q shows the client secret to the network: use https, or permit it by KAFKA_SASL_ALLOW_PLAINTEXT=true", k.OAuthTokenEndpoint)
	}
	if k.OAuthClientID == "" {
		r.add("KAFKA_SASL_OAUTH_CLIENT_ID", "not set: KAFKA_SASL_OAUTH_TOKEN_ENDPOINT needs it")
	}
	if k.OAuthClientSecret == "" && r.usable("KAFKA_SASL_OAUTH_CLIENT_SECRET") {
		r.add("KAFKA_SASL_OAUTH_CLIENT_SECRET", "not set: KAFKA_SASL_OAUTH_TOKEN_ENDPOINT needs it, or KAFKA_SASL_OAUTH_CLIENT_SECRET_FILE with the path of a file that holds it")
	}
}

func (a *AWS) obeyCredentials(r *report) {
	switch {
	case a.SharedCredentialsFile != "" && a.AccessKeyID != "":
		r.add("AWS_SHARED_CREDENTIALS_FILE", "set together with AWS_ACCESS_KEY_ID: unset one of them")
	case a.SharedCredentialsFile != "":
		readable("AWS_SHARED_CREDENTIALS_FILE", a.SharedCredentialsFile, r)
	case a.AccessKeyID == "":
		r.add("AWS_ACCESS_KEY_ID", "not set: KAFKA_SASL_MECHANISM=AWS_MSK_IAM needs it with AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE")
	case a.SecretAccessKey == "" && r.usable("AWS_SECRET_ACCESS_KEY"):
		r.add("AWS_SECRET_ACCESS_KEY", "not set: AWS_ACCESS_KEY_ID needs it, or AWS_SECRET_ACCESS_KEY_FILE with the path of a file that holds it")
	}
}

// topicPlaceholder stands for the input topic's name in BRIDGE_OUTPUT_TOPIC.
const topicPlaceholder = "{topic}"

func (b *Bridge) obeyTopics(r *report) {
	const input, output = "BRIDGE_INPUT_TOPICS", "BRIDGE_OUTPUT_TOPIC"
	if !r.usable(output) {
		return
	}
	if b.OutputTopic == topicPlaceholder {
		r.add(output, "%q writes every record to the topic it came from, to be read again without end: add something, such as {topic}-clean", b.OutputTopic)
		return
	}
	template := strings.ReplaceAll(b.OutputTopic, topicPlaceholder, "t")
	if strings.ContainsAny(template, "{}") {
		r.add(output, "%q has an unknown placeholder: the only one is {topic}", b.OutputTopic)
		return
	}
	if err := validTopic(template); err != nil {
		r.add(output, "%q %v", b.OutputTopic, err)
		return
	}
	if internalTopic(b.OutputTopic) {
		r.add(output, "%q is an internal topic of Kafka: name another", b.OutputTopic)
		return
	}
	if !r.usable(input) {
		return
	}
	for _, topic := range b.InputTopics.names {
		expanded := b.Output(topic)
		if err := validTopic(expanded); err != nil {
			r.add(output, "%q for input topic %s %v", b.OutputTopic, topic, err)
			return
		}
		if slices.Contains(b.InputTopics.names, expanded) {
			r.add(output, "%q gives %s, which %s lists as input: what is written would be read again without end; name another output", b.OutputTopic, expanded, input)
			return
		}
	}
}

// obeyErrors checks the topic for dead letters: what lies there is a dead letter, and what lies elsewhere is none.
func (b *Bridge) obeyErrors(r *report) {
	const name, input, output = "BRIDGE_DLQ_TOPIC", "BRIDGE_INPUT_TOPICS", "BRIDGE_OUTPUT_TOPIC"
	if !r.usable("BRIDGE_ON_ERROR", name) {
		return
	}
	if b.DLQTopic == "" {
		if b.OnError == OnErrorDLQ {
			r.add(name, "not set, but BRIDGE_ON_ERROR=%s writes dead letters: name a topic for them", b.OnError)
		}
		return
	}
	if b.OnError != OnErrorDLQ {
		r.add(name, "set, but BRIDGE_ON_ERROR=%s writes no dead letters: set BRIDGE_ON_ERROR=%s, or unset this", b.OnError, OnErrorDLQ)
		return
	}
	if err := validTopic(b.DLQTopic); err != nil {
		r.add(name, "%q %v", b.DLQTopic, err)
		return
	}
	if internalTopic(b.DLQTopic) {
		r.add(name, "%q is an internal topic of Kafka: name another", b.DLQTopic)
		return
	}
	if !r.usable(input, output) {
		return
	}
	if slices.Contains(b.InputTopics.names, b.DLQTopic) {
		r.add(name, "%q is an input (%s): dead letters would be read again without end; name another", b.DLQTopic, input)
		return
	}
	for _, topic := range append([]string{topicPlaceholder}, b.InputTopics.names...) {
		if b.Output(topic) == b.DLQTopic {
			r.add(name, "%q is an output (%s): dead letters need a topic of their own", b.DLQTopic, output)
			return
		}
	}
}

func (b *Bridge) obeyStart(r *report) {
	if b.Start == "" {
		return
	}
	for _, word := range []string{StartEarliest, StartLatest} {
		if strings.EqualFold(b.Start, word) {
			b.Start = word
			return
		}
	}
	if _, err := time.Parse(time.RFC3339, b.Start); err != nil {
		r.add("BRIDGE_START", "%q is not a place to start: write earliest, latest, or a time with its zone such as 2026-01-31T00:00:00Z", b.Start)
	}
}

// maxIdentity bounds the parts of the transactional ids; Kafka's own limit is that of a string, 32767.
const maxIdentity = 249

func (b *Bridge) obeyIdentity(r *report) {
	for _, s := range []struct{ name, value string }{{"BRIDGE_GROUP_ID", b.GroupID}, {"BRIDGE_TXN_PREFIX", b.TxnPrefix}} {
		if s.name == "BRIDGE_TXN_PREFIX" && b.TxnPrefix == b.GroupID {
			continue // said once is enough
		}
		strange := strings.IndexFunc(s.value, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) })
		switch {
		case !r.usable(s.name):
		case strange >= 0:
			r.add(s.name, "%q holds a space or an unprintable character: remove it", s.value)
		case len(s.value) > maxIdentity:
			r.add(s.name, "has %d bytes: use at most %d", len(s.value), maxIdentity)
		}
	}
	const name = "BRIDGE_INSTANCE_ID"
	if !r.usable(name) {
		return
	}
	if strings.Contains(b.InstanceID, ".") {
		r.add(name, "%q holds a dot, which separates the parts of the transactional ids: replace it by '-'", b.InstanceID)
		return
	}
	for _, c := range b.InstanceID {
		if !nameCharacter(c) {
			r.add(name, "%q holds the character %q: use letters, digits, '-' and '_'", b.InstanceID, c)
			return
		}
	}
	if len(b.InstanceID) > maxIdentity {
		r.add(name, "has %d bytes: use at most %d", len(b.InstanceID), maxIdentity)
	}
}

// longestTimeout is the longest duration that Kafka's protocol carries, in milliseconds.
const longestTimeout = math.MaxInt32 * time.Millisecond

func (b *Bridge) obeyRanges(r *report) {
	for _, s := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"BRIDGE_EPOCH_INTERVAL", b.EpochInterval, 0},
		{"BRIDGE_EPOCH_MAX_INTERVAL", b.EpochMaxInterval, 0},
		{"BRIDGE_EPOCH_TIMEOUT", b.EpochTimeout, time.Millisecond},
		{"BRIDGE_EPOCH_MIN_PAUSE", b.EpochMinPause, 0},
		{"BRIDGE_TXN_TIMEOUT", b.TxnTimeout, time.Millisecond},
		{"BRIDGE_SESSION_TIMEOUT", b.SessionTimeout, time.Millisecond},
		{"BRIDGE_REBALANCE_TIMEOUT", b.RebalanceTimeout, time.Millisecond},
		{"BRIDGE_STOP_TIMEOUT", b.StopTimeout, 0},
		{"BRIDGE_RESTART_MAX_DELAY", b.RestartMaxDelay, time.Millisecond},
	} {
		if r.usable(s.name) && (s.value < s.least || s.value > longestTimeout) {
			r.add(s.name, "%q is out of range: use %s to %s", durationText(s.value), durationText(s.least), durationText(longestTimeout))
		}
	}
	for _, s := range []struct {
		name         string
		value, least int64
		most         int64
	}{
		{"BRIDGE_EPOCH_MAX_RECORDS", int64(b.EpochMaxRecords), 1, math.MaxInt32},
		{"BRIDGE_EPOCH_MAX_BYTES", int64(b.EpochMaxBytes), 1, math.MaxInt64},
		{"BRIDGE_LANES", int64(b.Lanes), 1, 1024},
		{"BRIDGE_MEMORY_LIMIT", int64(b.MemoryLimit), 0, math.MaxInt64},
		{"BRIDGE_ERROR_LIMIT", int64(b.ErrorLimit), 0, math.MaxInt32},
		{"BRIDGE_RESTART_LIMIT", int64(b.RestartLimit), 0, math.MaxInt32},
	} {
		if r.usable(s.name) && (s.value < s.least || s.value > s.most) {
			r.add(s.name, "%d is out of range: use %d to %d", s.value, s.least, s.most)
		}
	}
}

// obeyTimeouts checks the order of the timeouts. A transaction that outlived its epoch's commit would be aborted
// by the broker under our hands; one that outlived the session would hold up the partitions' next owner.
func (b *Bridge) obeyTimeouts(r *report) {
	const interval, longest, pause, epoch = "BRIDGE_EPOCH_INTERVAL", "BRIDGE_EPOCH_MAX_INTERVAL", "BRIDGE_EPOCH_MIN_PAUSE", "BRIDGE_EPOCH_TIMEOUT"
	const txn, session, rebalance = "BRIDGE_TXN_TIMEOUT", "BRIDGE_SESSION_TIMEOUT", "BRIDGE_REBALANCE_TIMEOUT"
	if r.usable(interval, longest) && b.EpochMaxInterval < b.EpochInterval {
		r.add(longest, "%s must not be less than %s = %s: raise this, or unset it",
			durationText(b.EpochMaxInterval), interval, durationText(b.EpochInterval))
		return
	}
	if r.usable(interval, longest, pause, epoch, txn) && b.Delivery == DeliveryExactlyOnce {
		open, name := b.EpochInterval, interval
		if b.EpochMaxInterval > open {
			open, name = b.EpochMaxInterval, longest
		}
		if b.EpochMinPause > open {
			open, name = b.EpochMinPause, pause
		}
		if least := open + 2*b.EpochTimeout; b.TxnTimeout <= least {
			r.add(txn, "%s must be more than %s + 2 × %s = %s + 2 × %s = %s: raise this to %s or more, or lower %s",
				durationText(b.TxnTimeout), name, epoch, durationText(open), durationText(b.EpochTimeout), durationText(least),
				durationText(roundUp(least)), epoch)
		}
	}
	if b.GroupProtocol != GroupProtocolClassic || !r.usable("BRIDGE_GROUP_PROTOCOL") {
		return // the brokers have the session timeout, which is compared when it is known
	}
	if r.usable(txn, session) && b.Delivery == DeliveryExactlyOnce && b.SessionTimeout <= b.TxnTimeout {
		r.add(session, "%s must be more than %s = %s: raise this to %s or more, or lower %s",
			durationText(b.SessionTimeout), txn, durationText(b.TxnTimeout), durationText(roundUp(b.TxnTimeout)), txn)
	}
	if r.usable(session, rebalance) && b.RebalanceTimeout < b.SessionTimeout {
		r.add(rebalance, "%s must not be less than %s = %s: raise this, or lower %s",
			durationText(b.RebalanceTimeout), session, durationText(b.SessionTimeout), session)
	}
}

// roundUp returns the next whole second above d.
func roundUp(d time.Duration) time.Duration { return d.Truncate(time.Second) + time.Second }

// Output returns the topic that records of an input topic are written to, unless a transform says otherwise.
func (b *Bridge) Output(input string) string {
	return strings.ReplaceAll(b.OutputTopic, topicPlaceholder, input)
}
