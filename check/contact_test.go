package check

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/eosbridge/eosbridge/topics"
)

// certificate is one that nobody signed but its own key, for the names given.
func certificate(t *testing.T, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// fake is an embedded broker (kfake, not Apache Kafka).
func fake(t *testing.T, opts ...kfake.Opt) string {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

// refusing is an embedded broker that answers a wrong password as Apache Kafka does; kfake only hangs up.
func refusing(t *testing.T, opts ...kfake.Opt) string {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	return c.ListenAddrs()[0]
}

// Ways in which a port behaves that is no broker.
const (
	absent  = "nobody listens"
	silent  = "nothing is answered"
	hangsUp = "the connection is closed after what Kafka takes for the length of a request"
)

// listener is such a port.
func listener(t *testing.T, way string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	switch way {
	case absent:
		l.Close()
		return l.Addr().String()
	case hangsUp:
		go func() { // ends with the listener
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.ReadFull(conn, make([]byte, 4))
				conn.Close()
			}
		}()
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// TestContactClasses: each way in which a broker does not answer is told, by a broker that does so.
func TestContactClasses(t *testing.T) {
	t.Parallel()
	cert := certificate(t, "elsewhere")
	serving := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}})
	trusting := x509.NewCertPool()
	trusting.AddCert(cert.Leaf)
	asUser := kgo.SASL(plain.Auth{User: "bridge", Pass: "wrong"}.AsMechanism())
	users := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "bridge", "right")}
	for _, row := range []struct {
		name, address string
		client        []kgo.Opt
		class, remedy string
	}{
		{"nobody listens", listener(t, absent), nil, classRefused, "start the broker"},
		{"nobody answers", listener(t, silent), nil, classTimeout, "firewall"},
		{"an authority that we do not know", fake(t, serving), []kgo.Opt{kgo.DialTLSConfig(&tls.Config{ServerName: "elsewhere"})}, classCertificate, "KAFKA_TLS_CA_FILE"},
		{"another name", fake(t, serving), []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: trusting})}, classCertificate, "KAFKA_TLS_SERVER_NAME"},
		{
			"no certificate of ours", fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert})),
			[]kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: trusting, ServerName: "elsewhere"})},
			classCertificate, "KAFKA_TLS_CERT_FILE",
		},
		{"TLS where there is none", listener(t, hangsUp), []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: trusting})}, classProtocol, "KAFKA_SECURITY_PROTOCOL"},
		{"no TLS where there is some", fake(t, serving), nil, classProtocol, "KAFKA_SECURITY_PROTOCOL"},
		{"a wrong password", refusing(t, users...), []kgo.Opt{asUser}, classAuthentication, "KAFKA_SASL_PASSWORD"},
		{"no password", fake(t, users...), nil, classProtocol, "KAFKA_SECURITY_PROTOCOL"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			report, err := Run(t.Context(), Options{
				Bootstrap: []string{row.address}, Client: append(row.client, kgo.SeedBrokers(row.address)), Timeout: 3 * time.Second,
				Group: "g", Instance: "bridge-0", Prefix: "g", Plan: topics.Plan{Names: []string{"in"}, Output: "out"},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Findings {
				if f.Rule == ruleReachable {
					if f.Status != Fail || !strings.HasPrefix(f.Value, row.class+": ") || !strings.Contains(f.Remedy, row.remedy) {
						t.Errorf("%+v, want class %s and remedy %q", f, row.class, row.remedy)
					}
					return
				}
			}
			t.Errorf("nothing is said of it: %+v", report.Findings)
		})
	}
}

// TestContactClassOf: errors that this machine cannot be made to have.
func TestContactClassOf(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, className},
		{fmt.Errorf("dial: %w", syscall.EHOSTUNREACH), classTimeout},
		{context.DeadlineExceeded, classTimeout},
		{syscall.ECONNRESET, classProtocol},
		{x509.CertificateInvalidError{Reason: x509.Expired}, classCertificate},
		{kerr.UnsupportedSaslMechanism, classAuthentication},
		{errors.New("what?"), classOther},
	} {
		class, remedy := contactClass(row.err)
		if class != row.want || (row.err != nil) != (remedy != "") {
			t.Errorf("%v: class %q, remedy %q; want %q", row.err, class, remedy, row.want)
		}
	}
}

func TestBrief(t *testing.T) {
	got := brief(errors.New("a\n\tb " + strings.Repeat("x", 300)))
	if !strings.HasPrefix(got, "a b x") || len(got) > 210 || !strings.HasSuffix(got, "…") {
		t.Errorf("%q", got)
	}
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{"User:bridge": "User:bridge", "a b": "'a b'", "": "''", "it's": `'it'\''s'`, "*": "'*'"} {
		if got := quoted(word); got != want {
			t.Errorf("quoted(%q) = %s, want %s", word, got, want)
		}
	}
}
