package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/txn"
)

const (
	tokenTimeout = 10 * time.Second
	// tokenMargin is how long before its end a token is no longer used: it must outlive the authentication.
	tokenMargin = 30 * time.Second
	// maxTokenLife is the longest time a token is kept, whatever the endpoint says.
	maxTokenLife = 24 * time.Hour
	// maxTokenAnswer bounds what is read from the token endpoint, in bytes.
	maxTokenAnswer = 1 << 20
)

// readToken reads a bearer token from a file, as it is now.
func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("KAFKA_SASL_OAUTH_TOKEN_FILE: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("KAFKA_SASL_OAUTH_TOKEN_FILE: %q is empty: write the token into it", path)
	}
	return token, nil
}

// tokenEndpoint obtains tokens for client credentials (RFC 6749, section 4.4) and keeps each until shortly before
// it expires. It may be used by several goroutines.
type tokenEndpoint struct {
	url, id, scope string
	secret         func() (config.Secret, error) // as it is now
	http           *http.Client

	// turn has one place: whoever holds it may touch the fields below. A mutex would not let go of callers whose
	// context ends while another one waits for the endpoint.
	turn   chan struct{}
	kept   func() string
	expiry time.Time
}

func newTokenEndpoint(cfg *config.Config) *tokenEndpoint {
	k := &cfg.Kafka
	return &tokenEndpoint{
		url: k.OAuthTokenEndpoint, id: k.OAuthClientID, scope: k.OAuthScope, secret: cfg.ClientSecret,
		http: &http.Client{
			Timeout: tokenTimeout,
			// The secret goes to the endpoint that was configured and nowhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		turn: make(chan struct{}, 1),
	}
}

// token returns a token that is valid for a while. If no new one can be had, a kept one is used to its end.
func (e *tokenEndpoint) token(ctx context.Context) (string, error) {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("wait for a token: %w", ctx.Err())
	}
	if e.kept != nil && time.Until(e.expiry) > tokenMargin {
		return e.kept(), nil
	}
	token, life, err := e.request(ctx)
	if err != nil {
		if e.kept != nil && time.Until(e.expiry) > 0 {
			return e.kept(), nil
		}
		return "", fmt.Errorf("KAFKA_SASL_OAUTH_TOKEN_ENDPOINT: %w", err)
	}
	e.kept, e.expiry = func() string { return token }, time.Now().Add(life)
	return token, nil
}

// clientRefused is an endpoint's word that our client id and secret are not right: to whoever asks it is the same as if the
// broker had refused us.
type clientRefused struct{ error }

func (clientRefused) Is(target error) bool { return target == kerr.SaslAuthenticationFailed }

// request asks for a new token and says how long it lives. Its errors hold neither the secret nor a token.
func (e *tokenEndpoint) request(ctx context.Context) (token string, life time.Duration, err error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if e.scope != "" {
		form.Set("scope", e.scope)
	}
	secret, err := e.secret()
	if err != nil {
		return "", 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	// RFC 6749, section 2.3.1: both are form-encoded before they go into the header.
	req.SetBasicAuth(url.QueryEscape(e.id), url.QueryEscape(secret.Reveal()))
	resp, err := e.http.Do(req)
	if err != nil {
		if txn.AdmissionOf(err) != txn.Admitted {
			// Not a broker's certificate: what is told of those would mislead. It is an endpoint that is away.
			err = &net.OpError{Op: "dial", Err: errors.New(err.Error() + "; its certificate is checked with the system's authorities, SSL_CERT_FILE names others")}
		}
		return "", 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer))
	if err != nil {
		return "", 0, fmt.Errorf("read the answer: %w", err)
	}
	var answer struct {
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"` // seconds; some servers send a fraction
		Error       string  `json:"error"`
	}
	// Only the standard error code is taken from a refusal: a server may repeat the request in its text.
	bad := json.Unmarshal(body, &answer)
	switch {
	case resp.StatusCode != http.StatusOK:
		err := fmt.Errorf("answered %s", resp.Status)
		if answer.Error != "" {
			err = fmt.Errorf("%w: %q", err, answer.Error)
		}
		if resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			err = clientRefused{err}
		}
		return "", 0, err
	case bad != nil:
		return "", 0, errors.New("the answer is not the JSON object of RFC 6749, section 5.1")
	case answer.AccessToken == "":
		return "", 0, errors.New("the answer holds no access_token")
	}
	// Without a lifetime the token is used once. The bounds keep any number within the range of a Duration.
	seconds := min(max(answer.ExpiresIn, 0), maxTokenLife.Seconds())
	return answer.AccessToken, time.Duration(seconds * float64(time.Second)), nil
}
