package e2e

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	text []byte // its certificate, in PEM form
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key, text: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// sign makes a certificate for a subject on this machine, good until end.
func (a *authority) sign(t *testing.T, subject string, end time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: subject},
		NotBefore: end.Add(-24 * time.Hour), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// signed is sign for a certificate that is good.
func (a *authority) signed(t *testing.T, subject string) (cert, key []byte) {
	t.Helper()
	return a.sign(t, subject, time.Now().Add(time.Hour))
}

// put writes a file as whoever rotates certificates should: a reader sees the old one or the new one. It answers the path.
func put(t *testing.T, dir, name string, parts ...[]byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	var text []byte
	for _, part := range parts {
		text = append(text, part...)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// issuer hands out signed tokens for client credentials, as an identity provider does.
type issuer struct {
	url  string
	keys []byte // the JSON Web Key Set that brokers check them with
	life time.Duration

	key    *rsa.PrivateKey
	mu     sync.Mutex
	issued []time.Time
	tokens []string
}

// The client that the issuer knows.
const (
	oauthClient = "bridge-oauth"
	oauthSecret = "marked-client-secret"
)

// newIssuer listens on loopback by TLS, with a certificate of the authority's.
func newIssuer(t *testing.T, ca *authority, life time.Duration) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key, life: life}
	i.keys, err = json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1",
		"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	cert, private := ca.signed(t, "issuer")
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(i)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

// ServeHTTP answers as RFC 6749 says, sections 4.4.3 and 5.2.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	id, secret, _ := r.BasicAuth()
	if id != oauthClient || secret != oauthSecret || r.FormValue("grant_type") != "client_credentials" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client"}`)
		return
	}
	token, err := i.token(id, time.Now().Add(i.life))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	i.mu.Lock()
	i.issued, i.tokens = append(i.issued, time.Now()), append(i.tokens, token)
	i.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": i.life.Seconds()})
}

// token is a JSON Web Token with an RS256 signature (RFC 7519).
func (i *issuer) token(subject string, end time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{
		"sub": subject, "iss": "issuer", "aud": "kafka", "scope": "kafka", "iat": time.Now().Unix() - 1, "exp": end.Unix(),
	})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT","kid":"k1"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	if err != nil {
		return "", err
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// since counts the tokens issued after a time.
func (i *issuer) since(at time.Time) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := 0
	for _, one := range i.issued {
		if one.After(at) {
			n++
		}
	}
	return n
}
