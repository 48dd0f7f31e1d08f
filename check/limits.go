package check

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/txn"
)

func limitRules() []rule {
	return []rule{
		{
			"limit.transaction", "`BRIDGE_TXN_TIMEOUT` is not above the brokers' `transaction.max.timeout.ms`", "it is: InitProducerId is refused", "", judgeTransactionLimit,
		},
		{
			"limit.session", "`BRIDGE_SESSION_TIMEOUT` is within `group.min.session.timeout.ms` and `group.max.session.timeout.ms`; with `BRIDGE_GROUP_PROTOCOL=consumer`, `BRIDGE_TXN_TIMEOUT` is below `group.consumer.session.timeout.ms`",
			"it is not: the bridge cannot join", "", judgeSessionLimit,
		},
		{
			"limit.expiration", "`transactional.id.expiration.ms` is 1 hour or more", "", "it is less: a bridge without input for that long loses its ids, and restarts by itself", judgeExpiration,
		},
		{
			"limit.retention", "`offsets.retention.minutes` is 1 day or more", "", "it is less: a bridge that is down for longer loses its positions, and must be told where to begin", judgeRetention,
		},
	}
}

// limits calls judge if the broker's settings are known. The first rule that asks says that they are not.
func (s *Snapshot) limits(first bool, judge func(Settings) []Finding) []Finding {
	if s.Broker.Err == nil {
		return judge(s.Broker)
	}
	if !first {
		return nil
	}
	return []Finding{notChecked("broker settings", s.Broker.Err, s.grant(permission{Resource: "cluster", Operation: kmsg.ACLOperationDescribeConfigs}))}
}

func judgeTransactionLimit(s *Snapshot) []Finding {
	return s.limits(true, func(b Settings) []Finding {
		most, known := b.duration("transaction.max.timeout.ms")
		if !known || !s.Transactional {
			return nil
		}
		subject, bound := "BRIDGE_TXN_TIMEOUT", fmt.Sprintf("at most transaction.max.timeout.ms=%s", most)
		if s.TxnTimeout > most {
			return []Finding{fail(subject, s.TxnTimeout.String(), bound, fmt.Sprintf("set BRIDGE_TXN_TIMEOUT to %s or less, or raise the brokers' transaction.max.timeout.ms", most))}
		}
		return []Finding{pass(subject, s.TxnTimeout.String(), bound)}
	})
}

func judgeSessionLimit(s *Snapshot) []Finding {
	return s.limits(false, func(b Settings) []Finding {
		if s.Consumer {
			session, known := b.duration("group.consumer.session.timeout.ms")
			if !known || !s.Transactional {
				return nil
			}
			subject, bound := "BRIDGE_TXN_TIMEOUT", fmt.Sprintf("below group.consumer.session.timeout.ms=%s", session)
			if txn.BelowSession(s.TxnTimeout, session) != nil {
				return []Finding{fail(subject, s.TxnTimeout.String(), bound, "lower BRIDGE_TXN_TIMEOUT, or raise the brokers' group.consumer.session.timeout.ms: a member that is presumed dead must not keep a transaction open")}
			}
			return []Finding{pass(subject, s.TxnTimeout.String(), bound)}
		}
		least, knowsLeast := b.duration("group.min.session.timeout.ms")
		most, knowsMost := b.duration("group.max.session.timeout.ms")
		if !knowsLeast || !knowsMost {
			return nil
		}
		subject, bound := "BRIDGE_SESSION_TIMEOUT", fmt.Sprintf("group.min.session.timeout.ms=%s to group.max.session.timeout.ms=%s", least, most)
		if s.SessionTimeout < least || s.SessionTimeout > most {
			return []Finding{fail(subject, s.SessionTimeout.String(), bound, fmt.Sprintf("set BRIDGE_SESSION_TIMEOUT to a time from %s to %s", least, most))}
		}
		return []Finding{pass(subject, s.SessionTimeout.String(), bound)}
	})
}

func judgeExpiration(s *Snapshot) []Finding {
	return s.limits(false, func(b Settings) []Finding {
		const least = time.Hour
		have, known := b.duration("transactional.id.expiration.ms")
		if !known || !s.Transactional {
			return nil
		}
		subject, bound := "transactional.id.expiration.ms", "at least "+least.String()
		if have < least {
			return []Finding{warn(subject, have.String(), bound, "raise it in the brokers' server.properties (Kafka's default is 7 days: 604800000)")}
		}
		return []Finding{pass(subject, have.String(), bound)}
	})
}

func judgeRetention(s *Snapshot) []Finding {
	return s.limits(false, func(b Settings) []Finding {
		const least = 24 * time.Hour
		minutes, known := b.number("offsets.retention.minutes")
		if !known {
			return nil
		}
		have := time.Duration(minutes) * time.Minute
		subject, bound := "offsets.retention.minutes", "at least "+least.String()
		if have < least {
			return []Finding{warn(subject, have.String(), bound, "raise it in the brokers' server.properties (Kafka's default is 7 days: 10080)")}
		}
		return []Finding{pass(subject, have.String(), bound)}
	})
}
