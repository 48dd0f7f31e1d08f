package config

import (
	"net/url"
	"strings"
)

// The prefixes of the two registries' variables.
const (
	schemaPrefix       = "SCHEMA_REGISTRY_"
	targetSchemaPrefix = "TARGET_SCHEMA_REGISTRY_"
)

// obeySchemas reports what cannot work in the settings of one registry, whose variables begin with prefix.
func (s *SchemaRegistry) obeySchemas(prefix string, r *report) {
	if len(s.URL) == 0 {
		s.obeyUnset(prefix, r)
		return
	}
	secure := s.obeyURLs(prefix+"URL", r)
	if (s.Username == "") != (s.Password == "") && r.usable(prefix+"PASSWORD") {
		missing := "USERNAME"
		if s.Password == "" {
			missing = "PASSWORD"
		}
		r.add(prefix+missing, "not set: %sUSERNAME and %sPASSWORD belong together", prefix, prefix)
	}
	if s.Password != "" && !secure && !s.AllowPlaintext {
		r.add(prefix+"URL", "http shows the password to the network: use https, or permit it by %sALLOW_PLAINTEXT=true", prefix)
	}
	for _, file := range s.tlsFiles(prefix) {
		switch {
		case file.Path == "":
		case !secure:
			r.add(file.Variable, "set, but %sURL does not use TLS: use https, or unset this", prefix)
		default:
			readable(file.Variable, file.Path, r)
		}
	}
	if (s.TLSCertFile == "") != (s.TLSKeyFile == "") {
		r.add(prefix+"TLS_CERT_FILE", "the certificate and %sTLS_KEY_FILE belong together: set both or neither", prefix)
	}
}

func (s *SchemaRegistry) tlsFiles(prefix string) []NamedFile {
	return []NamedFile{
		{prefix + "TLS_CA_FILE", s.TLSCAFile}, {prefix + "TLS_CERT_FILE", s.TLSCertFile}, {prefix + "TLS_KEY_FILE", s.TLSKeyFile},
	}
}

// obeyUnset reports what is set in vain.
func (s *SchemaRegistry) obeyUnset(prefix string, r *report) {
	inVain := func(name string, set bool) {
		if set && r.usable(name) {
			r.add(name, "set, but %sURL is not: set it, or unset this", prefix)
		}
	}
	inVain(prefix+"USERNAME", s.Username != "")
	inVain(prefix+"PASSWORD", s.Password != "")
	for _, file := range s.tlsFiles(prefix) {
		inVain(file.Variable, file.Path != "")
	}
}

// obeyURLs tells whether all of them are https. A URL that may hold a password is not shown.
func (s *SchemaRegistry) obeyURLs(name string, r *report) (secure bool) {
	secure = true
	for _, text := range s.URL {
		u, err := url.Parse(text)
		switch {
		case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
			r.add(name, "not a URL with a host: write one such as https://registry:8081")
		case u.User != nil:
			r.add(name, "%q holds credentials: move them to %sUSERNAME and %sPASSWORD", u.Redacted(), strings.TrimSuffix(name, "URL"), strings.TrimSuffix(name, "URL"))
		case u.RawQuery != "" || u.Fragment != "":
			r.add(name, "holds a query: only the address and a path count")
		default:
			secure = secure && u.Scheme == "https"
			continue
		}
	}
	return secure
}
