package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eosbridge/eosbridge/config"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = writeFile(t, "ca.pem", pemText("CERTIFICATE", der))
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// sign writes a certificate and its key into dir, for a server at 127.0.0.1 and the given host, or for a client.
func (a *authority) sign(dir, name string) (certFile, keyFile string) {
	a.t.Helper()
	return a.signUntil(dir, name, time.Now().Add(time.Hour))
}

// signUntil is sign for a certificate that ends at a time.
func (a *authority) signUntil(dir, name string, end time.Time) (certFile, keyFile string) {
	a.t.Helper()
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, text := range map[string]string{certFile: pemText("CERTIFICATE", der), keyFile: pemText("PRIVATE KEY", secret)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// server returns the configuration of a server whose certificate this authority signed.
func (a *authority) server() *tls.Config {
	a.t.Helper()
	pair, err := tls.LoadX509KeyPair(a.sign(a.t.TempDir(), "broker.example"))
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// serve answers each connection with one byte after the handshake, and hands out whom it saw.
func serve(t *testing.T, cfg *tls.Config) (address string, clients <-chan string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	seen, done := make(chan string, 16), make(chan struct{})
	go func() { // ends when the listener is closed below
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			secure := conn.(*tls.Conn)
			if secure.HandshakeContext(t.Context()) == nil {
				name := ""
				if peers := secure.ConnectionState().PeerCertificates; len(peers) > 0 {
					name = peers[0].Subject.CommonName
				}
				seen <- name
				_, _ = conn.Write([]byte{1})
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String(), seen
}

// connect dials and waits for the server's byte: with TLS 1.3 a refused client certificate shows no sooner.
func connect(t *testing.T, d *tlsDialer, address string) error {
	t.Helper()
	conn, err := d.dial(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

func dialer(t *testing.T, k config.Kafka, log *slog.Logger) *tlsDialer {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	d, err := newTLSDialer(&k, log)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTLSVerifiesTheBroker(t *testing.T) {
	ca := newAuthority(t, "ours")
	address, _ := serve(t, ca.server())
	for name, test := range map[string]struct {
		kafka config.Kafka
		want  string // part of the error; empty = success
	}{
		"right authority":   {config.Kafka{TLSCAFile: ca.file}, ""},
		"right server name": {config.Kafka{TLSCAFile: ca.file, TLSServerName: "broker.example"}, ""},
		"wrong server name": {config.Kafka{TLSCAFile: ca.file, TLSServerName: "other.example"}, "broker.example, not other.example"},
		"wrong authority":   {config.Kafka{TLSCAFile: newAuthority(t, "theirs").file}, "unknown authority"},
		"system's roots":    {config.Kafka{}, "unknown authority"},
		"not verified":      {config.Kafka{TLSInsecureSkipVerify: true}, ""},
	} {
		err := connect(t, dialer(t, test.kafka, nil), address)
		if test.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err != nil && !strings.Contains(err.Error(), "tls handshake with "+address) {
			t.Errorf("%s: the error does not say with whom: %v", name, err)
		}
	}
}

func TestTLSRefusesOldVersions(t *testing.T) {
	ca := newAuthority(t, "ours")
	old := ca.server()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	address, _ := serve(t, old)
	if err := connect(t, dialer(t, config.Kafka{TLSCAFile: ca.file}, nil), address); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.1: %v", err)
	}
}

// TestTLSOwnCertificateExpired: the error says so.
func TestTLSOwnCertificateExpired(t *testing.T) {
	ca := newAuthority(t, "ours")
	mutual := ca.server()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	mutual.ClientCAs.AddCert(ca.cert)
	cert, key := ca.signUntil(t.TempDir(), "eosbridge", time.Now().Add(-time.Minute))
	err := ping(t, slog.New(slog.DiscardHandler), map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": cluster(t, kfake.TLS(mutual)), "KAFKA_SECURITY_PROTOCOL": "SSL",
		"KAFKA_TLS_CA_FILE": ca.file, "KAFKA_TLS_CERT_FILE": cert, "KAFKA_TLS_KEY_FILE": key,
		"BRIDGE_INPUT_TOPICS": "in", "BRIDGE_OUTPUT_TOPIC": "orders", "BRIDGE_GROUP_ID": "g",
	})
	if err == nil || !strings.Contains(err.Error(), "expired certificate") {
		t.Errorf("error %v", err)
	}
}

// TestTLSFilesAreReadAgain replaces certificate and authority between connections of one dialer.
func TestTLSFilesAreReadAgain(t *testing.T) {
	ca, dir := newAuthority(t, "ours"), t.TempDir()
	server := ca.server()
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	server.ClientCAs.AddCert(ca.cert)
	address, clients := serve(t, server)
	cert, key := ca.sign(dir, "first")
	caFile := filepath.Join(dir, "ca.pem")
	copyFile := func(from, to string) {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyFile(ca.file, caFile)
	lines := &logLines{}
	d := dialer(t, config.Kafka{TLSCAFile: caFile, TLSCertFile: cert, TLSKeyFile: key}, slog.New(lines))
	expect := func(want string) {
		t.Helper()
		if err := connect(t, d, address); err != nil {
			t.Fatal(err)
		}
		if got := <-clients; got != want {
			t.Errorf("the broker saw %q, want %q", got, want)
		}
	}
	expect("first")
	ca.sign(dir, "second")
	expect("second")

	// Half of a replacement: the certificate is new, the key is not yet.
	otherCert, otherKey := ca.sign(t.TempDir(), "third")
	copyFile(otherCert, cert)
	expect("second")
	expect("second")
	if got := lines.take(); len(got) != 1 || !strings.Contains(got[0], "tls files cannot be used, the last good ones are") {
		t.Errorf("logged %v, want one line", got)
	}
	copyFile(otherKey, key)
	expect("third")

	// A missing file does not stop connections either, and a new failure is worth a new line.
	if err := os.Remove(caFile); err != nil {
		t.Fatal(err)
	}
	expect("third")
	if got := lines.take(); len(got) != 1 || !strings.Contains(got[0], "KAFKA_TLS_CA_FILE") {
		t.Errorf("logged %v", got)
	}
	copyFile(newAuthority(t, "theirs").file, caFile)
	if err := connect(t, d, address); err == nil {
		t.Error("the old authority still counts")
	}
}

func TestTLSProblems(t *testing.T) {
	ca := newAuthority(t, "ours")
	cert, key := ca.sign(t.TempDir(), "a")
	_, otherKey := ca.sign(t.TempDir(), "b")
	text := writeFile(t, "text", "hello")
	encrypted := writeFile(t, "key.pem", pemText("ENCRYPTED PRIVATE KEY", []byte{1}))
	for name, test := range map[string]struct {
		files          []string // CA, certificate, key
		variable, want string
	}{
		"no authority in it": {[]string{text, "", ""}, "KAFKA_TLS_CA_FILE", "holds no certificate in PEM form"},
		"key as authority":   {[]string{key, "", ""}, "KAFKA_TLS_CA_FILE", "holds no certificate in PEM form"},
		"another key":        {[]string{"", cert, otherKey}, "KAFKA_TLS_CERT_FILE", "makes no pair with KAFKA_TLS_KEY_FILE"},
		"no key in it":       {[]string{"", cert, text}, "KAFKA_TLS_CERT_FILE", "makes no pair with KAFKA_TLS_KEY_FILE"},
		"no certificate":     {[]string{"", text, key}, "KAFKA_TLS_CERT_FILE", "makes no pair with KAFKA_TLS_KEY_FILE"},
		"encrypted key":      {[]string{"", cert, encrypted}, "KAFKA_TLS_KEY_FILE", "holds an encrypted key: store it decrypted"},
	} {
		environ := leastEnviron("KAFKA_SECURITY_PROTOCOL", "SSL",
			"KAFKA_TLS_CA_FILE", test.files[0], "KAFKA_TLS_CERT_FILE", test.files[1], "KAFKA_TLS_KEY_FILE", test.files[2])
		got := problemsOf(t, environ)
		if len(got) != 1 || got[0].Variable != test.variable || !strings.Contains(got[0].Message, test.want) {
			t.Errorf("%s: got %v, want %s: %s", name, got, test.variable, test.want)
		}
	}
	// Files that vanish after they were checked, and those that config has reported already.
	var problems *config.Problems
	if _, err := kafkaOptions(&config.Config{Kafka: config.Kafka{SecurityProtocol: "SSL", TLSCAFile: "/nonexistent"}}, slog.New(slog.DiscardHandler)); !errors.As(err, &problems) || exitCode(err) != exitConfig {
		t.Errorf("got %v", err)
	}
	for _, environ := range []map[string]string{
		leastEnviron("KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_TLS_CERT_FILE", cert),
		leastEnviron("KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_TLS_KEY_FILE", key),
		leastEnviron("KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_TLS_CA_FILE", "/nonexistent"),
	} {
		if got := problemsOf(t, environ); len(got) != 1 {
			t.Errorf("reported more than once: %v", got)
		}
	}
}

func TestTLSDialStops(t *testing.T) {
	// A peer that never answers the handshake must not outlast the caller.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() { // ends with the listener
		if conn, err := listener.Accept(); err == nil {
			accepted <- conn
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // ends once the dialer has connected
		conn := <-accepted
		cancel()
		_ = conn.Close()
	}()
	if _, err := dialer(t, config.Kafka{}, nil).dial(ctx, "tcp", listener.Addr().String()); err == nil || ctx.Err() == nil {
		t.Errorf("got %v", err)
	}
}
