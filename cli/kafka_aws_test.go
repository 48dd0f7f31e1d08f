package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sasl/aws"

	"github.com/eosbridge/eosbridge/config"
)

const credentials = `# written by a tool
[default]
aws_access_key_id = AKIA1
aws_secret_access_key=s3cr3t=
region = eu-west-1

[ other ] ; comment
AWS_ACCESS_KEY_ID = AKIA2
aws_secret_access_key = two
; aws_session_token = no
aws_session_token = token
not a pair

[half]
aws_access_key_id = AKIA3
`

func TestParseCredentials(t *testing.T) {
	for profile, want := range map[string]aws.Auth{
		"default": {AccessKey: "AKIA1", SecretKey: "s3cr3t="},
		"other":   {AccessKey: "AKIA2", SecretKey: "two", SessionToken: "token"},
		"half":    {AccessKey: "AKIA3"},
		"none":    {},
	} {
		if got := parseCredentials(credentials, profile); got != want {
			t.Errorf("%s: %+v, want %+v", profile, got, want)
		}
	}
	if got := parseCredentials(strings.ReplaceAll(credentials, "\n", "\r\n"), "default"); got.SecretKey != "s3cr3t=" {
		t.Errorf("with carriage returns: %+v", got)
	}
	if got := parseCredentials("aws_access_key_id = x", ""); got.AccessKey != "x" {
		t.Errorf("without a section: %+v", got)
	}
}

func TestAWSCredentials(t *testing.T) {
	got, err := awsCredentials(&config.AWS{AccessKeyID: "a", SecretAccessKey: "b", SessionToken: "c"})
	if err != nil || got != (aws.Auth{AccessKey: "a", SecretKey: "b", SessionToken: "c"}) {
		t.Errorf("%+v, %v", got, err)
	}
	path := writeFile(t, "credentials", credentials)
	if got, err = awsCredentials(&config.AWS{SharedCredentialsFile: path, Profile: "other"}); err != nil || got.AccessKey != "AKIA2" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(credentials, "AKIA2", "AKIA9")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = awsCredentials(&config.AWS{SharedCredentialsFile: path, Profile: "other"}); err != nil || got.AccessKey != "AKIA9" {
		t.Errorf("after it was replaced: %+v, %v", got, err)
	}
	for _, a := range []config.AWS{{SharedCredentialsFile: path, Profile: "half"}, {SharedCredentialsFile: path, Profile: "none"}, {SharedCredentialsFile: "/nonexistent"}} {
		if got, err := awsCredentials(&a); err == nil || !strings.HasPrefix(err.Error(), "AWS_SHARED_CREDENTIALS_FILE: ") || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%+v: %+v, %v", a, got, err)
		}
	}
}
