package config

import (
	"fmt"
	"strings"
	"time"
)

// Setting is one effective value, fit to be shown.
type Setting struct {
	Name string `json:"name"`
	// Value is the effective value as text: *** for a secret that is set, empty for what is not set or is worked out
	// at run time.
	Value string `json:"value"`
	// Origin is "default", "environment", or "file:" and a path.
	Origin string `json:"origin"`
}

// Settings returns every setting in the order of the reference page. Those of AWS, of schema registries and of
// OpenTelemetry appear only if they are used.
func (c *Config) Settings() []Setting {
	list := make([]Setting, 0, len(c.settings))
	traced := c.Traced()
	for _, s := range c.settings {
		if strings.HasPrefix(s.Name, tracingPrefix) && !traced {
			continue
		}
		if strings.HasPrefix(s.Name, "AWS_") && c.Kafka.SASLMechanism != MechanismMSKIAM {
			continue
		}
		if strings.HasPrefix(s.Name, schemaPrefix) && len(c.SchemaRegistry.URL) == 0 ||
			strings.HasPrefix(s.Name, targetSchemaPrefix) && len(c.TargetSchemaRegistry.URL) == 0 {
			continue
		}
		list = append(list, s)
	}
	return list
}

// Password returns KAFKA_SASL_PASSWORD as it is now: if it came from a file, the file is read again, so that whoever
// rotates the password only replaces the file. The error names the file.
func (c *Config) Password() (Secret, error) {
	return c.current("KAFKA_SASL_PASSWORD", c.Kafka.SASLPassword)
}

// ClientSecret does the same for KAFKA_SASL_OAUTH_CLIENT_SECRET.
func (c *Config) ClientSecret() (Secret, error) {
	return c.current("KAFKA_SASL_OAUTH_CLIENT_SECRET", c.Kafka.OAuthClientSecret)
}

// SchemaPassword does the same for SCHEMA_REGISTRY_PASSWORD, or for the one of the second registry.
func (c *Config) SchemaPassword(target bool) (Secret, error) {
	if target {
		return c.current(targetSchemaPrefix+"PASSWORD", c.TargetSchemaRegistry.Password)
	}
	return c.current(schemaPrefix+"PASSWORD", c.SchemaRegistry.Password)
}

// current returns a secret as it is now; loaded is what it was at the start.
func (c *Config) current(name string, loaded Secret) (Secret, error) {
	for _, s := range c.settings {
		path, fromFile := strings.CutPrefix(s.Origin, originFile)
		if s.Name != name || !fromFile {
			continue
		}
		text, err := readSecret(path)
		if err != nil {
			return "", fmt.Errorf("%s%s: %w", name, fileSuffix, err)
		}
		return Secret(text), nil
	}
	return loaded, nil
}

// IsSet says whether a variable was given a value, as opposed to having its default.
func (c *Config) IsSet(name string) bool {
	for _, s := range c.settings {
		if s.Name == name {
			return s.Origin != originDefault
		}
	}
	return false
}

const (
	originDefault = "default"
	originFile    = "file:" // and the path
)

func (c *Config) describe(values, origins map[string]string) []Setting {
	list := make([]Setting, 0, len(values))
	for _, v := range variables() {
		s := Setting{Name: v.name, Origin: originDefault}
		if origin, ok := origins[v.name]; ok {
			s.Origin = origin
		}
		switch value := v.of(c).Interface().(type) {
		case Secret:
			if value != "" {
				s.Value = mask
			}
		case []string:
			s.Value = strings.Join(value, ",")
		case time.Duration:
			s.Value = durationText(value)
		case Bytes:
			if value != 0 || v.derived == "" { // else it is worked out at run time
				s.Value = value.String()
			}
		default:
			s.Value = fmt.Sprint(value)
		}
		list = append(list, s)
	}
	return list
}
