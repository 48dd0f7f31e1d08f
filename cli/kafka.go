package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/internal/link"
)

// kafkaOptions returns the options that every client of the process needs to reach the cluster: brokers, client id,
// TLS, SASL, logging. They may be used for any number of clients, which then share caches of tokens and the
// rate limit of the log. It logs a warning for each protection that was switched off. The error is a
// *config.Problems.
func kafkaOptions(cfg *config.Config, log *slog.Logger) ([]kgo.Opt, error) {
	options, _, err := wiredOptions(cfg, log)
	return options, err
}

// wiredOptions returns, besides, what dials for these options.
func wiredOptions(cfg *config.Config, log *slog.Logger) ([]kgo.Opt, *link.Dialer, error) {
	k := &cfg.Kafka
	dial := (&net.Dialer{Timeout: dialTimeout}).DialContext
	if k.UsesTLS() {
		if k.TLSInsecureSkipVerify {
			log.Warn("broker certificates are not verified", "variable", "KAFKA_TLS_INSECURE_SKIP_VERIFY")
		}
		dialer, err := newTLSDialer(k, log)
		if err != nil {
			return nil, nil, err
		}
		dial = dialer.dial
	}
	dialer := link.New(dial)
	options := []kgo.Opt{
		kgo.SeedBrokers(k.BootstrapServers...),
		kgo.ClientID(k.ClientID),
		kgo.WithLogger(newClientLog(log)),
		kgo.Dialer(dialer.Dial),
	}
	if k.UsesSASL() {
		if k.SASLAllowPlaintext && !k.UsesTLS() {
			log.Warn("credentials may be sent without encryption", "variable", "KAFKA_SASL_ALLOW_PLAINTEXT")
		}
		mechanism, err := saslMechanism(cfg)
		if err != nil {
			return nil, nil, err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	return options, dialer, nil
}

// consumerOptions returns the options for the client that reads the input, on top of kafkaOptions.
func consumerOptions(cfg *config.Config) []kgo.Opt {
	if cfg.Kafka.Rack == "" {
		return nil
	}
	return []kgo.Opt{kgo.Rack(cfg.Kafka.Rack)}
}

// scramLogin returns who we are, as it is at each authentication.
func scramLogin(cfg *config.Config) func(context.Context) (scram.Auth, error) {
	return func(context.Context) (scram.Auth, error) {
		password, err := cfg.Password()
		return scram.Auth{User: cfg.Kafka.SASLUsername, Pass: password.Reveal()}, err
	}
}

// saslMechanism returns how to authenticate. Passwords, tokens and keys that come from files or a token endpoint are
// asked for at every authentication.
func saslMechanism(cfg *config.Config) (sasl.Mechanism, error) {
	k := &cfg.Kafka
	switch k.SASLMechanism {
	case config.MechanismPlain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := cfg.Password()
			return plain.Auth{User: k.SASLUsername, Pass: password.Reveal()}, err
		}), nil
	case config.MechanismScramSHA256:
		return scram.Sha256(scramLogin(cfg)), nil
	case config.MechanismScramSHA512:
		return scram.Sha512(scramLogin(cfg)), nil
	case config.MechanismOAuthBearer:
		token := newTokenEndpoint(cfg).token
		if k.OAuthTokenFile != "" {
			token = func(context.Context) (string, error) { return readToken(k.OAuthTokenFile) }
		}
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			text, err := token(ctx)
			return oauth.Auth{Token: text}, err
		}), nil
	case config.MechanismMSKIAM:
		return aws.ManagedStreamingIAM(func(context.Context) (aws.Auth, error) { return awsCredentials(&cfg.AWS) }), nil
	}
	return nil, &config.Problems{List: []config.Problem{{
		Variable: "KAFKA_SASL_MECHANISM", Message: fmt.Sprintf("%q is not supported: use another one", k.SASLMechanism),
	}}}
}
