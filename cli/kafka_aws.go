package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl/aws"

	"github.com/eosbridge/eosbridge/config"
)

// awsCredentials returns the keys for one authentication with AWS_MSK_IAM: those of the environment, or the profile
// of the credentials file as it is now.
func awsCredentials(a *config.AWS) (aws.Auth, error) {
	if a.SharedCredentialsFile == "" {
		return aws.Auth{AccessKey: a.AccessKeyID, SecretKey: a.SecretAccessKey.Reveal(), SessionToken: a.SessionToken.Reveal()}, nil
	}
	text, err := os.ReadFile(a.SharedCredentialsFile)
	if err != nil {
		return aws.Auth{}, fmt.Errorf("AWS_SHARED_CREDENTIALS_FILE: %w", err)
	}
	auth := parseCredentials(string(text), a.Profile)
	if auth.AccessKey == "" || auth.SecretKey == "" {
		return aws.Auth{}, fmt.Errorf("AWS_SHARED_CREDENTIALS_FILE: %q holds no aws_access_key_id and aws_secret_access_key in the profile %q: add them, or set AWS_PROFILE",
			a.SharedCredentialsFile, a.Profile)
	}
	return auth, nil
}

// parseCredentials reads one profile of a file such as
//
//	[default]
//	aws_access_key_id = AKIA...
//	aws_secret_access_key = ...
//	aws_session_token = ...
//
// Lines it does not know are skipped, for other tools keep more in there.
func parseCredentials(text, profile string) aws.Auth {
	var auth aws.Auth
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			section = strings.TrimSpace(name)
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || section != profile {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "aws_access_key_id":
			auth.AccessKey = value
		case "aws_secret_access_key":
			auth.SecretKey = value
		case "aws_session_token":
			auth.SessionToken = value
		}
	}
	return auth
}
