package txn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Admission is why a broker and we do not let each other in: TLS or SASL fails before any request is looked at.
type Admission int

// The reasons.
const (
	Admitted         Admission = iota // the error is none of the kind
	CredentialsFail                   // the broker refuses our name, password or token
	MechanismFails                    // the listener has no such SASL mechanism, or no SASL
	OwnCertificate                    // the broker refuses our certificate, or misses it
	BrokerUnknown                     // we do not trust who signed the broker's certificate
	BrokerMisnamed                    // its certificate is made out to somebody else
	BrokerExpired                     // its certificate is over, not valid yet, or not fit for a server
	BrokerWithoutTLS                  // the listener does not speak TLS
)

// AdmissionOf tells the reasons apart; Admitted if err is about something else. A broker that hangs up without a word, as one
// does that is spoken to in the wrong protocol, looks like one that stops, and is about something else.
func AdmissionOf(err error) Admission {
	var (
		host    x509.HostnameError
		unknown x509.UnknownAuthorityError
		verify  *tls.CertificateVerificationError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
	)
	switch {
	case err == nil:
		return Admitted
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return CredentialsFail
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return MechanismFails
	case errors.As(err, &host):
		return BrokerMisnamed
	case errors.As(err, &unknown):
		return BrokerUnknown
	case errors.As(err, &invalid), errors.As(err, &verify):
		return BrokerExpired
	case errors.As(err, &record):
		return BrokerWithoutTLS
	case alerted(err):
		return OwnCertificate
	}
	return Admitted
}

// alerted finds a TLS alert of the peer's. The package tls keeps its type to itself and wraps it in an OpError, around
// which a dialer may have put another.
func alerted(err error) bool {
	for op := (*net.OpError)(nil); errors.As(err, &op); err = op.Err {
		if op.Op == "remote error" {
			return true
		}
	}
	return false
}

// Remedy is what to do about it; empty for Admitted.
func (a Admission) Remedy() string {
	switch a {
	case CredentialsFail:
		return "correct KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD (with OAUTHBEARER KAFKA_SASL_OAUTH_CLIENT_ID, KAFKA_SASL_OAUTH_CLIENT_SECRET or the token), or create the user on the cluster"
	case MechanismFails:
		return "set KAFKA_SASL_MECHANISM to one that this listener has (sasl.enabled.mechanisms), or use another listener"
	case OwnCertificate:
		return "set KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE to a certificate that the broker trusts and that has not expired"
	case BrokerUnknown:
		return "set KAFKA_TLS_CA_FILE to the authority that signed the broker's certificate"
	case BrokerMisnamed:
		return "set KAFKA_TLS_SERVER_NAME to a name that the certificate holds, or have it made out to this host"
	case BrokerExpired:
		return "renew the broker's certificate, or correct this host's clock"
	case BrokerWithoutTLS:
		return "the broker does not speak TLS there: use its TLS port, or set KAFKA_SECURITY_PROTOCOL to PLAINTEXT or SASL_PLAINTEXT"
	case Admitted:
	}
	return ""
}

// Ours says that it is the broker who refuses us: what it asks for is ours to give.
func (a Admission) Ours() bool {
	return a == CredentialsFail || a == MechanismFails || a == OwnCertificate
}

// Status is the exit status of a process that never got in. A broker's own certificate is renewed without us, so a later
// start may find it well.
func (a Admission) Status() int {
	switch {
	case a.Ours():
		return StatusDenied
	case a == BrokerExpired:
		return StatusUnavailable
	}
	return StatusConfig
}

// notAdmitted is the failure of a call that no broker has looked at. It is an ErrAborted and does not say so: it may be the
// last word of a process that never had an epoch.
type notAdmitted struct {
	call Call
	err  error
}

func (e *notAdmitted) Error() string {
	return fmt.Sprintf("%s: the broker and we do not let each other in: %v: %s", e.call, e.err, AdmissionOf(e.err).Remedy())
}

func (e *notAdmitted) Unwrap() []error { return []error{ErrAborted, e.err} }

// ShutOut is the reason why a classified failure is one to get in; Admitted if it is another, also where TLS has failed
// elsewhere, as with a schema registry.
func ShutOut(err error) Admission {
	var failed *notAdmitted
	if !errors.As(err, &failed) {
		return Admitted
	}
	return AdmissionOf(failed.err)
}

// HungUp says that whoever listens there ends a connection before its first answer, as a load balancer without brokers does,
// a broker that stops, and a listener that is spoken to in the wrong protocol.
func HungUp(err error) bool {
	var eof *kgo.ErrFirstReadEOF
	return errors.As(err, &eof)
}
