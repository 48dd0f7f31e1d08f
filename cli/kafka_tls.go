package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/eosbridge/eosbridge/config"
)

// dialTimeout bounds a TCP connection attempt, and again the TLS handshake.
const dialTimeout = 10 * time.Second

// tlsFiles names what a TLS configuration is made of. Empty paths are allowed.
type tlsFiles struct {
	ca, cert, key config.NamedFile
	serverName    string
	skipVerify    bool
}

func newTLSFiles(k *config.Kafka) tlsFiles {
	files := namedTLSFiles("KAFKA_", k.TLSCAFile, k.TLSCertFile, k.TLSKeyFile)
	files.serverName, files.skipVerify = k.TLSServerName, k.TLSInsecureSkipVerify
	return files
}

// namedTLSFiles are files from variables that begin with prefix.
func namedTLSFiles(prefix, ca, cert, key string) tlsFiles {
	return tlsFiles{
		ca:   config.NamedFile{Variable: prefix + "TLS_CA_FILE", Path: ca},
		cert: config.NamedFile{Variable: prefix + "TLS_CERT_FILE", Path: cert},
		key:  config.NamedFile{Variable: prefix + "TLS_KEY_FILE", Path: key},
	}
}

// load reads the files. The error is a *config.Problems with one problem.
func (f tlsFiles) load() (*tls.Config, error) {
	result := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName, InsecureSkipVerify: f.skipVerify}
	if f.ca.Path != "" {
		text, err := os.ReadFile(f.ca.Path)
		if err != nil {
			return nil, tlsProblem(f.ca, err)
		}
		result.RootCAs = x509.NewCertPool()
		if !result.RootCAs.AppendCertsFromPEM(text) {
			return nil, tlsProblem(f.ca, errors.New("holds no certificate in PEM form"))
		}
	}
	if f.cert.Path == "" {
		return result, nil
	}
	cert, err := os.ReadFile(f.cert.Path)
	if err != nil {
		return nil, tlsProblem(f.cert, err)
	}
	key, err := os.ReadFile(f.key.Path)
	if err != nil {
		return nil, tlsProblem(f.key, err)
	}
	if block, _ := pem.Decode(key); block != nil && block.Type == "ENCRYPTED PRIVATE KEY" {
		return nil, tlsProblem(f.key, errors.New("holds an encrypted key: store it decrypted, readable by this process alone"))
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, tlsProblem(f.cert, fmt.Errorf("makes no pair with %s: %w", f.key.Variable, err))
	}
	result.Certificates = []tls.Certificate{pair}
	return result, nil
}

func tlsProblem(file config.NamedFile, err error) error {
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		err = fmt.Errorf("cannot be read (%w): correct the path or the file's permissions", pathErr.Err)
	}
	return &config.Problems{List: []config.Problem{{Variable: file.Variable, Message: fmt.Sprintf("%q %v", file.Path, err)}}}
}

// checkTLS reports TLS files that can be read and hold the wrong thing.
func checkTLS(cfg *config.Config) []config.Problem {
	if !cfg.Kafka.UsesTLS() {
		return nil
	}
	_, err := newTLSFiles(&cfg.Kafka).load()
	var problems *config.Problems
	if !errors.As(err, &problems) {
		return nil
	}
	return problems.List
}

// tlsDialer connects to brokers by TLS, with the files as they are at that moment: certificates and authorities may
// be replaced while the process runs. Files caught in the middle of being replaced do not matter, the last good
// ones are used.
type tlsDialer struct {
	files tlsFiles
	log   *slog.Logger

	mu     sync.Mutex
	good   *tls.Config
	failed string // text of the last failure, so that it is logged once
}

// newTLSDialer reads the files a first time. The error is a *config.Problems.
func newTLSDialer(k *config.Kafka, log *slog.Logger) (*tlsDialer, error) {
	return dialerFor(newTLSFiles(k), log)
}

// dialerFor does the same for other servers than brokers.
func dialerFor(files tlsFiles, log *slog.Logger) (*tlsDialer, error) {
	good, err := files.load()
	if err != nil {
		return nil, err
	}
	return &tlsDialer{files: files, log: log, good: good}, nil
}

// current returns the configuration for the next connection.
func (d *tlsDialer) current() *tls.Config {
	fresh, err := d.files.load()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.good, d.failed = fresh, ""
	} else if text := err.Error(); text != d.failed {
		d.failed = text
		d.log.Warn("tls files cannot be used, the last good ones are", "err", err)
	}
	return d.good
}

// dial implements the function that kgo.Dialer asks for. The deadline of ctx counts as well.
func (d *tlsDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	cfg := d.current().Clone()
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("address %q: %w", address, err)
		}
		cfg.ServerName = host
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		// As a failure to dial it makes the client ask the next broker, and the bridge try again: one broker whose
		// certificate is not right is one that is away.
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("tls handshake with %s: %w", address, err)}
	}
	return secure, nil
}
