package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/config"
)

// cluster starts an embedded broker (kfake) and returns its address.
func cluster(t *testing.T, options ...kfake.Opt) string {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

// ping connects as configured, by the whole way from the environment, and asks for metadata.
func ping(t *testing.T, log *slog.Logger, environ map[string]string) error {
	t.Helper()
	cfg, err := loadConfig(&Context{Environ: environ, Hostname: "pod-0"})
	if err != nil {
		t.Fatal(err)
	}
	options, err := kafkaOptions(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(append(options, consumerOptions(cfg)...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return client.Ping(ctx)
}

func TestConnect(t *testing.T) {
	ca := newAuthority(t, "ours")
	mutual := ca.server()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	mutual.ClientCAs.AddCert(ca.cert)
	cert, key := ca.sign(t.TempDir(), "eosbridge")
	users := []kfake.Opt{
		kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "hunter2"),
		kfake.Superuser("SCRAM-SHA-256", "u", "hunter2"), kfake.Superuser("SCRAM-SHA-512", "u", "hunter2"),
	}
	plaintext, secure, both := cluster(t), cluster(t, kfake.TLS(ca.server())), cluster(t, kfake.TLS(mutual))
	login, secureLogin := cluster(t, users...), cluster(t, append(users, kfake.TLS(ca.server()))...)
	sasl := func(mechanism, password string) []string {
		return []string{"KAFKA_SASL_MECHANISM", mechanism, "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", password, "KAFKA_SASL_ALLOW_PLAINTEXT", "true"}
	}
	trust := []string{"KAFKA_TLS_CA_FILE", ca.file}
	for name, test := range map[string]struct {
		address, protocol string
		more              [][]string
		want              string // part of the error or of the log; empty = it connects
	}{
		"plaintext":              {plaintext, "PLAINTEXT", nil, ""},
		"rack":                   {plaintext, "PLAINTEXT", [][]string{{"KAFKA_RACK", "a"}}, ""},
		"TLS":                    {secure, "SSL", [][]string{trust}, ""},
		"TLS, not verified":      {secure, "SSL", [][]string{{"KAFKA_TLS_INSECURE_SKIP_VERIFY", "true"}}, ""},
		"TLS, unknown authority": {secure, "SSL", nil, "unknown authority"},
		"plaintext to TLS":       {secure, "PLAINTEXT", nil, "TLS"},
		"mutual TLS":             {both, "SSL", [][]string{trust, {"KAFKA_TLS_CERT_FILE", cert, "KAFKA_TLS_KEY_FILE", key}}, ""},
		"mutual TLS, no own":     {both, "SSL", [][]string{trust}, "certificate"},
		"PLAIN":                  {login, "SASL_PLAINTEXT", [][]string{sasl("PLAIN", "hunter2")}, ""},
		"SCRAM-SHA-256":          {login, "SASL_PLAINTEXT", [][]string{sasl("SCRAM-SHA-256", "hunter2")}, ""},
		"SCRAM-SHA-512":          {login, "SASL_PLAINTEXT", [][]string{sasl("SCRAM-SHA-512", "hunter2")}, ""},
		"PLAIN and TLS":          {secureLogin, "SASL_SSL", [][]string{trust, sasl("PLAIN", "hunter2")}, ""},
		"SCRAM and TLS":          {secureLogin, "SASL_SSL", [][]string{trust, sasl("SCRAM-SHA-512", "hunter2")}, ""},
		// The embedded broker hangs up where a real one answers SASL_AUTHENTICATION_FAILED.
		"PLAIN, wrong password":     {login, "SASL_PLAINTEXT", [][]string{sasl("PLAIN", "wr0ng")}, "EOF"},
		"SCRAM, wrong password":     {login, "SASL_PLAINTEXT", [][]string{sasl("SCRAM-SHA-256", "wr0ng")}, "EOF"},
		"no login where one is due": {login, "PLAINTEXT", nil, "SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			pairs := []string{"KAFKA_BOOTSTRAP_SERVERS", test.address, "KAFKA_SECURITY_PROTOCOL", test.protocol}
			for _, more := range test.more {
				pairs = append(pairs, more...)
			}
			lines := &logLines{level: slog.LevelDebug}
			err := ping(t, slog.New(lines), leastEnviron(pairs...))
			said := fmt.Sprint(err) + "\n" + strings.Join(lines.take(), "\n")
			if test.want == "" != (err == nil) || !strings.Contains(said, test.want) {
				t.Errorf("error %v; want %q in\n%s", err, test.want, said)
			}
			if strings.Contains(said, "hunter2") || strings.Contains(said, "wr0ng") {
				t.Errorf("a password is shown:\n%s", said)
			}
		})
	}
}

// TestTLSToPlaintext: a plaintext listener takes the handshake for a request of an absurd size and hangs up. The log
// then has to say what that means, at the default level.
func TestTLSToPlaintext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096)) // all of it: unread data would turn the end into a reset
			_ = conn.Close()
		}
	}()
	lines := &logLines{level: slog.LevelInfo}
	err = ping(t, slog.New(lines), leastEnviron("KAFKA_BOOTSTRAP_SERVERS", listener.Addr().String(), "KAFKA_SECURITY_PROTOCOL", "SSL"))
	said := lines.take()
	if err == nil || len(said) != 1 || !strings.Contains(said[0], "is TLS misconfigured?") {
		t.Errorf("error %v; logged %q", err, said)
	}
}

// TestConnectIsSilent: at the default level a connection that works says nothing.
func TestConnectIsSilent(t *testing.T) {
	lines := &logLines{level: slog.LevelInfo}
	if err := ping(t, slog.New(lines), leastEnviron("KAFKA_BOOTSTRAP_SERVERS", cluster(t))); err != nil {
		t.Fatal(err)
	}
	if got := lines.take(); got != nil {
		t.Errorf("logged %q", got)
	}
}

func TestWeakenedProtectionIsLogged(t *testing.T) {
	for want, pairs := range map[string][]string{
		"WARN broker certificates are not verified variable=KAFKA_TLS_INSECURE_SKIP_VERIFY": {
			"KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_TLS_INSECURE_SKIP_VERIFY", "true",
		},
		"WARN credentials may be sent without encryption variable=KAFKA_SASL_ALLOW_PLAINTEXT": {
			"KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "u",
			"KAFKA_SASL_PASSWORD", "p", "KAFKA_SASL_ALLOW_PLAINTEXT", "true",
		},
	} {
		cfg, err := loadConfig(&Context{Environ: leastEnviron(pairs...), Hostname: "h"})
		if err != nil {
			t.Fatal(err)
		}
		lines := &logLines{}
		if _, err := kafkaOptions(cfg, slog.New(lines)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(lines.take(), "\n"); got != want {
			t.Errorf("logged %q, want %q", got, want)
		}
	}
}

// TestMechanisms checks what each mechanism sends first, for those that the embedded broker does not know.
func TestMechanisms(t *testing.T) {
	token := writeFile(t, "token", "t0ken\n")
	for name, test := range map[string]struct {
		cfg  config.Config
		want []string
	}{
		"OAUTHBEARER": {config.Config{Kafka: config.Kafka{SASLMechanism: config.MechanismOAuthBearer, OAuthTokenFile: token}}, []string{"auth=Bearer t0ken"}},
		"AWS_MSK_IAM": {
			config.Config{Kafka: config.Kafka{SASLMechanism: config.MechanismMSKIAM}, AWS: config.AWS{AccessKeyID: "AKIA1", SecretAccessKey: "hunter2", SessionToken: "t0ken"}},
			[]string{"AKIA1", "eu-west-1", "t0ken", `"host":"b-1.x.kafka.eu-west-1.amazonaws.com"`},
		},
	} {
		mechanism, err := saslMechanism(&test.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if mechanism.Name() != name {
			t.Errorf("%s is called %s", name, mechanism.Name())
		}
		_, first, err := mechanism.Authenticate(t.Context(), "b-1.x.kafka.eu-west-1.amazonaws.com:9098")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(string(first), want) {
				t.Errorf("%s sends %q, without %q", name, first, want)
			}
		}
		if strings.Contains(string(first), "hunter2") {
			t.Errorf("%s sends the secret itself", name)
		}
	}
	_, err := saslMechanism(&config.Config{Kafka: config.Kafka{SASLMechanism: "GSSAPI"}})
	if exitCode(err) != exitConfig {
		t.Errorf("an unknown mechanism: %v", err)
	}
}

// TestMechanismsCoverConfig: every mechanism that config permits can be built.
func TestMechanismsCoverConfig(t *testing.T) {
	for _, name := range []string{config.MechanismPlain, config.MechanismScramSHA256, config.MechanismScramSHA512, config.MechanismOAuthBearer, config.MechanismMSKIAM} {
		mechanism, err := saslMechanism(&config.Config{Kafka: config.Kafka{SASLMechanism: name}})
		if err != nil || mechanism.Name() != name {
			t.Errorf("%s: %v, %v", name, mechanism, err)
		}
	}
}

func TestRackIsForTheConsumer(t *testing.T) {
	if got := consumerOptions(&config.Config{}); got != nil {
		t.Errorf("options without a rack: %v", got)
	}
	if got := consumerOptions(&config.Config{Kafka: config.Kafka{Rack: "a"}}); len(got) != 1 {
		t.Errorf("options with a rack: %v", got)
	}
}
