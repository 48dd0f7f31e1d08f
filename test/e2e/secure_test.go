package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// The passwords of the users of the secure bed. No output of any command may hold one of them.
const (
	plainSecret = "marked-plain-password"
	scramSecret = "marked-scram-password"
	wrongSecret = "marked-wrong-password"
)

// secureBed is one broker with a listener for each way of getting in, besides the open one, which is for the test.
type secureBed struct {
	*kafka.Cluster
	dir    string
	ca     *authority
	caFile string
	cert   string // of the bridge, and its key
	key    string
	issuer *issuer
	relay  *relay // before the listener TURNING
}

// relay passes connections on to the one broker there is, and cuts them off when told.
type relay struct {
	net.Listener

	mu     sync.Mutex
	target string
	open   []net.Conn
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: listener}
	var wg sync.WaitGroup
	wg.Go(func() { // ends with the listener
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			broker, err := net.Dial("tcp", r.to())
			if err != nil {
				_ = client.Close()
				continue
			}
			r.mu.Lock()
			r.open = append(r.open, client, broker)
			r.mu.Unlock()
			for _, way := range [][2]net.Conn{{client, broker}, {broker, client}} {
				wg.Go(func() { // ends with either connection
					_, _ = io.Copy(way[0], way[1])
					_, _ = way[0].Close(), way[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() { _ = listener.Close(); r.cut(); wg.Wait() })
	return r
}

func (r *relay) to() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.target
}

// cut ends all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.open {
		_ = conn.Close()
	}
	r.open = nil
}

// startSecure starts the broker. ACLs are in force for everybody but those who come without a name.
func startSecure(t *testing.T) *secureBed {
	t.Helper()
	b := &secureBed{dir: t.TempDir(), ca: newAuthority(t, "authority"), relay: newRelay(t)}
	b.caFile = put(t, b.dir, "ca.pem", b.ca.text)
	cert, key := b.ca.signed(t, "bridge")
	b.cert, b.key = put(t, b.dir, "bridge.pem", cert), put(t, b.dir, "bridge.key", key)
	b.issuer = newIssuer(t, b.ca, 4*time.Second)
	jwks := "file://" + put(t, b.dir, "jwks.json", b.issuer.keys)

	cert, key = b.ca.signed(t, "broker")
	good := put(t, b.dir, "broker.pem", key, cert)
	cert, key = b.ca.sign(t, "broker", time.Now().Add(-time.Minute))
	expired := put(t, b.dir, "expired.pem", key, cert)
	keep := func(store string, more ...string) map[string]string {
		p := map[string]string{
			"ssl.keystore.type": "PEM", "ssl.keystore.location": store,
			"ssl.truststore.type": "PEM", "ssl.truststore.location": b.caFile,
		}
		for i := 0; i < len(more); i += 2 {
			p[more[i]] = more[i+1]
		}
		return p
	}
	const scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	b.Cluster = kafka.Start(t, kafka.Options{
		Properties: map[string]string{
			"authorizer.class.name":               "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":                         "User:ANONYMOUS",
			"sasl.oauthbearer.jwks.endpoint.url":  jwks,
			"sasl.oauthbearer.expected.audience":  "kafka",
			"sasl.oauthbearer.expected.issuer":    "issuer",
			"sasl.oauthbearer.clock.skew.seconds": "0",
		},
		JVM: []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + jwks, "-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=" + strings.TrimPrefix(jwks, "file://")},
		Listeners: []kafka.Listener{
			{Name: "TLS", Protocol: "SSL", Properties: keep(good)},
			{Name: "EXPIRED", Protocol: "SSL", Properties: keep(expired)},
			{Name: "MTLS", Protocol: "SSL", Properties: keep(good, "ssl.client.auth", "required")},
			{
				Name: "TURNING", Protocol: "SSL", Properties: keep(good, "ssl.client.auth", "required"),
				Advertised: func(string) string { return b.relay.Addr().String() },
			},
			{Name: "SASLTLS", Protocol: "SASL_SSL", Properties: keep(good,
				"sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
				"connections.max.reauth.ms", "2000",
				"plain.sasl.jaas.config", `org.apache.kafka.common.security.plain.PlainLoginModule required user_plain="`+plainSecret+`";`,
				"scram-sha-256.sasl.jaas.config", scram, "scram-sha-512.sasl.jaas.config", scram,
			)},
			{Name: "OAUTH", Protocol: "SASL_SSL", Properties: keep(good,
				"sasl.enabled.mechanisms", "OAUTHBEARER",
				"oauthbearer.sasl.jaas.config", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
				"oauthbearer.sasl.server.callback.handler.class", "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
			)},
		},
	})
	b.relay.mu.Lock()
	b.relay.target = b.At("TURNING")
	b.relay.mu.Unlock()
	b.setPassword(t, "scram", scramSecret)
	b.setPassword(t, "rotating", scramSecret)
	return b
}

// setPassword makes a user of SCRAM, or gives it another password.
func (b *secureBed) setPassword(t *testing.T, user, password string) {
	t.Helper()
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} { // one request takes a user once
		resp, err := b.Admin(t).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: mechanism, Iterations: 4096, Password: password}})
		if err == nil {
			err = resp.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tls are the settings for TLS with the right authority, and further ones.
func (b *secureBed) tls(protocol string, more ...string) map[string]string {
	settings := map[string]string{"KAFKA_SECURITY_PROTOCOL": protocol, "KAFKA_TLS_CA_FILE": b.caFile}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return settings
}

func (b *secureBed) login(mechanism, user, password string) map[string]string {
	return b.tls("SASL_SSL", "KAFKA_SASL_MECHANISM", mechanism, "KAFKA_SASL_USERNAME", user, "KAFKA_SASL_PASSWORD", password)
}

func (b *secureBed) oauth(secret string) map[string]string {
	return b.tls("SASL_SSL", "KAFKA_SASL_MECHANISM", "OAUTHBEARER", "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", b.issuer.url,
		"KAFKA_SASL_OAUTH_CLIENT_ID", oauthClient, "KAFKA_SASL_OAUTH_CLIENT_SECRET", secret,
		"SSL_CERT_FILE", b.caFile) // the endpoint's certificate is checked with the system's roots
}

// pipeline is a rig whose bridge comes in by a listener as a principal that has what the bridge needs, and nothing else.
// An empty principal is nobody's name, and may do all.
func (b *secureBed) pipeline(t *testing.T, listener, principal string, settings map[string]string) *rig {
	t.Helper()
	r := newRig(t, b.Cluster, plan{in: 2, out: 2, preserve: true, settings: settings, address: b.At(listener)})
	if principal == "" {
		return r
	}
	adm := b.Admin(t)
	for _, what := range []string{
		"--operation Read --topic " + r.in, "--operation Write --topic " + r.out, "--operation Read --group " + r.group,
		"--operation Write --resource-pattern-type prefixed --transactional-id " + r.group + ".",
	} {
		grant(t, adm, "kafka-acls.sh --add --allow-principal "+principal+" "+what)
	}
	return r
}

// discreet looks for secrets in what a pipeline's processes have written.
func (b *secureBed) discreet(t *testing.T, r *rig) {
	t.Helper()
	key, err := os.ReadFile(b.key)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{plainSecret, scramSecret, wrongSecret, oauthSecret, strings.Split(string(key), "\n")[1]}
	b.issuer.mu.Lock()
	secrets = append(secrets, b.issuer.tokens...)
	b.issuer.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lives {
		for _, secret := range secrets {
			if l.Log.Contains(secret) {
				t.Errorf("the log of %s holds the secret %q", l.instance, secret)
			}
		}
	}
}

// TestSecureListeners: on Apache Kafka the bridge gets in by every way that it knows, as the principal that the documents
// say, with the four permissions of docs/check.md and no other, and is exact. What cannot get in says why.
func TestSecureListeners(t *testing.T) {
	t.Parallel()
	b := startSecure(t)
	t.Run("ways", func(t *testing.T) {
		for name, way := range map[string]struct {
			listener, principal string
			settings            map[string]string
		}{
			"TLS":           {"TLS", "", b.tls("SSL")},
			"mutual TLS":    {"MTLS", "User:CN=bridge", b.tls("SSL", "KAFKA_TLS_CERT_FILE", b.cert, "KAFKA_TLS_KEY_FILE", b.key)},
			"PLAIN":         {"SASLTLS", "User:plain", b.login("PLAIN", "plain", plainSecret)},
			"SCRAM-SHA-256": {"SASLTLS", "User:scram", b.login("SCRAM-SHA-256", "scram", scramSecret)},
			"SCRAM-SHA-512": {"SASLTLS", "User:scram", b.login("SCRAM-SHA-512", "scram", scramSecret)},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := b.pipeline(t, way.listener, way.principal, way.settings)
				if status, stdout, stderr := ran(t, r.environ("a", nil), "check", "--quiet"); status != 0 || len(stdout) > 0 {
					t.Errorf("check: status %d, %s%s", status, stdout, stderr)
				}
				r.feedNow(t, 200)
				exits(t, r.start(t, "a", "--until-end"), 0)
				r.exact(t)
				b.discreet(t, r)
			})
		}
		t.Run("OAUTHBEARER", func(t *testing.T) { t.Parallel(); b.outlives(t) })
		t.Run("password", func(t *testing.T) { t.Parallel(); b.newPassword(t) })
		t.Run("certificates", func(t *testing.T) { t.Parallel(); b.newCertificates(t) })
		t.Run("refused", func(t *testing.T) { t.Parallel(); b.refusals(t) })
	})
}

// outlives bridges for longer than any of its tokens lives: connections are authenticated anew (KIP-368), or made anew. At the end the
// process is made to tell its goroutines, as in a crash.
func (b *secureBed) outlives(t *testing.T) {
	r := b.pipeline(t, "OAUTH", "User:"+oauthClient, b.oauth(oauthSecret))
	began := time.Now()
	p := r.start(t, "a")
	feed := r.feed(t, 500)
	eventually(t, "tokens after the first ones have expired", func() bool { return b.issuer.since(began.Add(b.issuer.life)) > 2 })
	awaitCommit(t, p, p.Log.Len())
	feed.finish(t)
	r.settle(t)
	// On a busy machine a request may reach the broker when the token of its connection is over.
	t.Logf("%d tokens, %d sessions that failed", b.issuer.since(began), p.Log.Count("session failed, starting again"))
	r.exact(t)
	if err := p.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	exits(t, p, 2)
	if !p.Log.Contains("goroutine 1 ") {
		t.Error("no goroutines are told")
	}
	b.discreet(t, r)
}

// newPassword changes the password of a running bridge at the broker, and only then in its file: in between it is refused.
func (b *secureBed) newPassword(t *testing.T) {
	dir := t.TempDir()
	settings := b.login("SCRAM-SHA-512", "rotating", "")
	delete(settings, "KAFKA_SASL_PASSWORD")
	settings["KAFKA_SASL_PASSWORD_FILE"] = put(t, dir, "password", []byte(scramSecret+"\n"))
	r := b.pipeline(t, "SASLTLS", "User:rotating", settings)
	p := r.start(t, "a")
	feed := r.feed(t, 500)
	awaitCommit(t, p, 0)
	const next = "marked-scram-password-2"
	b.setPassword(t, "rotating", next)
	await(t, p, 0, "a refusal", func(e Event) bool {
		return e.Message == "session failed, starting again" && strings.Contains(e.Line, "SASL_AUTHENTICATION_FAILED")
	})
	put(t, dir, "password", []byte(next+"\n"))
	awaitCommit(t, p, p.Log.Len())
	feed.finish(t)
	r.settle(t)
	stop(t, p)
	r.exact(t)
	b.discreet(t, r)
}

// newCertificates exchanges, under a running bridge, the authority, the broker's certificate and the bridge's own, in the
// order of docs/security.md. Both sides trust both authorities meanwhile. Then the broker shows a certificate that nobody
// trusts, and a good one again.
func (b *secureBed) newCertificates(t *testing.T) {
	dir, next := t.TempDir(), newAuthority(t, "next authority")
	cert, key := b.ca.signed(t, "bridge")
	ca := put(t, dir, "ca.pem", b.ca.text)
	certFile, keyFile := put(t, dir, "cert.pem", cert), put(t, dir, "key.pem", key)
	r := b.pipeline(t, "TURNING", "User:CN=bridge", map[string]string{
		"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_TLS_CA_FILE": ca, "KAFKA_TLS_CERT_FILE": certFile, "KAFKA_TLS_KEY_FILE": keyFile,
		"BRIDGE_EPOCH_TIMEOUT": "2s", // for those that the cut connections end
	})
	r.plan.address = b.relay.Addr().String()
	p := r.start(t, "a")
	feed := r.feed(t, 500)
	awaitCommit(t, p, 0)
	old, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}

	put(t, dir, "ca.pem", b.ca.text, next.text)
	b.alter(t, "ssl.truststore.location", put(t, dir, "both.pem", b.ca.text, next.text))
	brokerCert, brokerKey := next.signed(t, "broker")
	b.alter(t, "ssl.keystore.location", put(t, dir, "broker.pem", brokerKey, brokerCert))
	eventually(t, "the broker's new certificate", func() bool { return b.open(t, next, old) == nil })
	cert, key = next.signed(t, "bridge")
	put(t, dir, "key.pem", key)
	put(t, dir, "cert.pem", cert)
	put(t, dir, "ca.pem", next.text)
	b.alter(t, "ssl.truststore.location", put(t, dir, "next.pem", next.text))
	eventually(t, "the end of the old authority", func() bool { return b.open(t, next, old) != nil })
	mark := p.Log.Len()
	b.relay.cut()
	awaitCommit(t, p, mark)

	newest, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	otherCert, otherKey := newAuthority(t, "nobody").signed(t, "broker")
	b.alter(t, "ssl.keystore.location", put(t, dir, "untrusted.pem", otherKey, otherCert))
	eventually(t, "the certificate of nobody", func() bool { // cut before, the bridge would come back in by the old one
		var nobody x509.UnknownAuthorityError
		return errors.As(b.open(t, next, newest), &nobody)
	})
	mark = p.Log.Len()
	b.relay.cut()
	await(t, p, mark, "distrust", func(e Event) bool {
		return e.Message == "session failed, starting again" && strings.Contains(e.Line, "unknown authority")
	})
	b.alter(t, "ssl.keystore.location", put(t, dir, "trusted.pem", brokerKey, brokerCert))
	awaitCommit(t, p, p.Log.Len())
	feed.finish(t)
	r.settle(t)
	stop(t, p)
	r.exact(t)
	b.discreet(t, r)
}

// alter changes a setting of the listener TURNING while the broker runs (KIP-226).
func (b *secureBed) alter(t *testing.T, name, value string) {
	t.Helper()
	resp, err := b.Admin(t).AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "listener.name.turning." + name, Value: kadm.StringPtr(value)}}, 1)
	if err == nil {
		err = resp[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
}

// open answers nil if the listener TURNING shows a certificate of the authority's, and takes ours.
func (b *secureBed) open(t *testing.T, ca *authority, own tls.Certificate) error {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.At("TURNING")), kgo.RequestRetries(0),
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}))
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.Ping(t.Context())
}

// refusals: whoever does not get in ends with one line that says why and what to do, and with the right status.
func (b *secureBed) refusals(t *testing.T) {
	stranger := newAuthority(t, "stranger")
	strange := put(t, b.dir, "stranger.pem", stranger.text)
	cert, key := stranger.signed(t, "bridge")
	strangeCert, strangeKey := put(t, b.dir, "strange-cert.pem", cert), put(t, b.dir, "strange-key.pem", key)
	cert, key = b.ca.sign(t, "bridge", time.Now().Add(-time.Minute))
	oldCert, oldKey := put(t, b.dir, "old-cert.pem", cert), put(t, b.dir, "old-key.pem", key)
	for name, row := range map[string]struct {
		listener string
		settings map[string]string
		status   int
		said     []string
	}{
		"PLAIN, wrong password":  {"SASLTLS", b.login("PLAIN", "plain", wrongSecret), 77, []string{"SASL_AUTHENTICATION_FAILED", "KAFKA_SASL_PASSWORD"}},
		"SCRAM, wrong password":  {"SASLTLS", b.login("SCRAM-SHA-256", "scram", wrongSecret), 77, []string{"SASL_AUTHENTICATION_FAILED", "KAFKA_SASL_PASSWORD"}},
		"unknown mechanism":      {"OAUTH", b.login("PLAIN", "plain", plainSecret), 77, []string{"UNSUPPORTED_SASL_MECHANISM", "KAFKA_SASL_MECHANISM"}},
		"wrong client secret":    {"OAUTH", b.oauth(wrongSecret), 77, []string{"401", "invalid_client", "KAFKA_SASL_OAUTH_CLIENT_SECRET"}},
		"wrong authority":        {"TLS", b.tls("SSL", "KAFKA_TLS_CA_FILE", strange), 78, []string{"unknown authority", "KAFKA_TLS_CA_FILE"}},
		"wrong host name":        {"TLS", b.tls("SSL", "KAFKA_TLS_SERVER_NAME", "kafka.example"), 78, []string{"kafka.example", "KAFKA_TLS_SERVER_NAME"}},
		"expired broker":         {"EXPIRED", b.tls("SSL"), 69, []string{"expired", "renew the broker's certificate"}},
		"no certificate of ours": {"MTLS", b.tls("SSL"), 77, []string{"certificate", "KAFKA_TLS_CERT_FILE"}},
		"unknown certificate":    {"MTLS", b.tls("SSL", "KAFKA_TLS_CERT_FILE", strangeCert, "KAFKA_TLS_KEY_FILE", strangeKey), 77, []string{"certificate", "KAFKA_TLS_CERT_FILE"}},
		"expired certificate":    {"MTLS", b.tls("SSL", "KAFKA_TLS_CERT_FILE", oldCert, "KAFKA_TLS_KEY_FILE", oldKey), 77, []string{"certificate", "KAFKA_TLS_CERT_FILE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rig{cluster: b.Cluster, in: "in", out: "out", group: "group", plan: plan{settings: row.settings, address: b.At(row.listener)}}
			t.Cleanup(func() { r.cleanUp(t) })
			p := r.start(t, "a")
			exits(t, p, row.status)
			var last string
			for _, e := range p.Log.Events(0) {
				if strings.HasPrefix(e.Line, "eosbridge: ") {
					last += e.Line
				}
			}
			t.Log(last)
			for _, want := range row.said {
				if !strings.Contains(last, want) {
					t.Errorf("%q is not in %q", want, last)
				}
			}
			b.discreet(t, r)
		})
	}
}
