package config

import "time"

// Config is the whole configuration, as read by Load. It is not altered afterwards.
type Config struct {
	Kafka  Kafka  `envPrefix:"KAFKA_"`
	AWS    AWS    `envPrefix:"AWS_"`
	Bridge Bridge `envPrefix:"BRIDGE_"`
	Log    Log    `envPrefix:"LOG_"`

	SchemaRegistry       SchemaRegistry `envPrefix:"SCHEMA_REGISTRY_" section:"Schema registry"`
	TargetSchemaRegistry SchemaRegistry `envPrefix:"TARGET_SCHEMA_REGISTRY_" section:"Second schema registry (schema_map_id)"`

	OTel       OTel `envPrefix:"OTEL_" section:"Tracing (OpenTelemetry)"`
	OTLP       OTLP `envPrefix:"OTEL_EXPORTER_OTLP_" section:"Where traces go (OTLP over HTTP)"`
	OTLPTraces OTLP `envPrefix:"OTEL_EXPORTER_OTLP_TRACES_" section:"The same for traces alone, before the ones above"`

	settings []Setting
}

// Kafka says how to reach a cluster and who we are there.
type Kafka struct {
	BootstrapServers []string `env:"BOOTSTRAP_SERVERS" required:"true" example:"kafka-1:9092,kafka-2:9092" section:"Kafka cluster" doc:"Comma-separated list of 'host:port' where the cluster is found. Two or three brokers are enough; the rest is learnt from them."`
	ClientID         string   `env:"CLIENT_ID" default:"'eosbridge-' and the instance id" doc:"Name of this client in the logs, metrics and quotas of the brokers."`
	Rack             string   `env:"RACK" doc:"Where this process runs, in the brokers' words ('broker.rack'). When set, records are fetched from the closest replica, if the brokers have a rack-aware replica selector (KIP-392)."`

	SecurityProtocol string `env:"SECURITY_PROTOCOL" envDefault:"PLAINTEXT" oneof:"PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL" section:"Kafka security" doc:"As in Kafka's own clients: TLS with 'SSL' and 'SASL_SSL', authentication by SASL with 'SASL_PLAINTEXT' and 'SASL_SSL'."`
	SASLMechanism    string `env:"SASL_MECHANISM" oneof:"PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER|AWS_MSK_IAM" doc:"How to authenticate. Needed with 'SASL_PLAINTEXT' and 'SASL_SSL'."`
	SASLUsername     string `env:"SASL_USERNAME" doc:"User of 'PLAIN' and 'SCRAM-SHA-*'."`
	SASLPassword     Secret `env:"SASL_PASSWORD" doc:"Password of 'PLAIN' and 'SCRAM-SHA-*'. A file with it is read again at every authentication: replacing it needs no restart."`
	// SASLAllowPlaintext permits mechanisms that show the credentials to the network on a connection without TLS.
	SASLAllowPlaintext bool `env:"SASL_ALLOW_PLAINTEXT" envDefault:"false" doc:"Permits 'PLAIN', 'OAUTHBEARER' and 'AWS_MSK_IAM' without TLS, and a token endpoint without TLS: anyone on the network path can then read the credentials."`

	OAuthTokenFile     string `env:"SASL_OAUTH_TOKEN_FILE" example:"/var/run/secrets/kafka/token" doc:"File with the bearer token of 'OAUTHBEARER', read again at every authentication, so that whoever renews the token only replaces the file. Either this or a token endpoint."`
	OAuthTokenEndpoint string `env:"SASL_OAUTH_TOKEN_ENDPOINT" example:"https://login.example.com/oauth2/token" doc:"URL that hands out tokens for client credentials (RFC 6749, section 4.4). Tokens are kept until shortly before they expire."`
	OAuthClientID      string `env:"SASL_OAUTH_CLIENT_ID" doc:"Client id shown to the token endpoint."`
	OAuthClientSecret  Secret `env:"SASL_OAUTH_CLIENT_SECRET" doc:"Client secret shown to the token endpoint. A file with it is read again for every token."`
	OAuthScope         string `env:"SASL_OAUTH_SCOPE" doc:"Scope asked of the token endpoint; several are separated by spaces."`

	TLSCAFile     string `env:"TLS_CA_FILE" default:"the system's roots" doc:"PEM file with the authorities that may sign the brokers' certificates. All three TLS files are read again for every new connection: replacing them needs no restart."`
	TLSCertFile   string `env:"TLS_CERT_FILE" doc:"PEM file with our certificate and its chain, for brokers that ask for one (mTLS). Goes with 'KAFKA_TLS_KEY_FILE'."`
	TLSKeyFile    string `env:"TLS_KEY_FILE" doc:"PEM file with the private key of our certificate."`
	TLSServerName string `env:"TLS_SERVER_NAME" default:"host of the broker" doc:"Name that the brokers' certificates must hold, when it is not the host name we connect to."`
	// TLSInsecureSkipVerify accepts any certificate, which gives up the protection against a man in the middle.
	TLSInsecureSkipVerify bool `env:"TLS_INSECURE_SKIP_VERIFY" envDefault:"false" doc:"Accepts any certificate. For experiments only: anyone on the network path can then pose as the broker."`
}

// AWS holds the credentials of the AWS_MSK_IAM mechanism, under the names that AWS's own tools use.
type AWS struct {
	AccessKeyID           string `env:"ACCESS_KEY_ID" section:"AWS credentials" doc:"Access key of 'AWS_MSK_IAM'. The region is that in the broker's host name, else the one in 'AWS_REGION'."`
	SecretAccessKey       Secret `env:"SECRET_ACCESS_KEY" doc:"Secret that belongs to 'AWS_ACCESS_KEY_ID'."`
	SessionToken          Secret `env:"SESSION_TOKEN" doc:"Session token, when the access key is a temporary one."`
	SharedCredentialsFile string `env:"SHARED_CREDENTIALS_FILE" example:"/etc/eosbridge/aws-credentials" doc:"Credentials file in the format of AWS's tools, in place of the three variables above. Read again at every authentication, so temporary credentials can be renewed."`
	Profile               string `env:"PROFILE" envDefault:"default" doc:"Profile to take from the credentials file."`
}

// Bridge is the pipeline: what is read, what becomes of it, and how it is committed.
type Bridge struct {
	InputTopics  Topics `env:"INPUT_TOPICS" required:"true" example:"orders,payments" section:"Pipeline" doc:"Topics to read: a comma-separated list, or one regular expression between slashes, such as '/orders-.*/' (RE2 syntax; it must match the whole name). A regular expression never matches internal topics or the topics we write."`
	OutputTopic  string `env:"OUTPUT_TOPIC" required:"true" example:"orders-clean" doc:"Topic to write. '{topic}' stands for the name of the topic a record came from. The 'route' transform overrides it per record. Topics are never created by the bridge."`
	Partitioning string `env:"PARTITIONING" envDefault:"preserve" oneof:"preserve|key" doc:"'preserve' keeps each record's partition number and refuses an output topic with fewer partitions than its input; 'key' spreads by the hash of the key as Kafka's Java producer does (murmur2)."`
	Transform    string `env:"TRANSFORM" default:"records pass unchanged" example:"drop_tombstones | set_header(source=eosbridge)" doc:"Chain of transforms, 'name(argument) | name(argument)'. 'eosbridge transform list' shows them."`
	Provenance   bool   `env:"PROVENANCE" envDefault:"false" doc:"Adds headers to each output record that say which input record it comes from: 'eosbridge.topic', 'eosbridge.partition', 'eosbridge.offset', 'eosbridge.epoch' and 'eosbridge.output' ('2/3' is the second of three outputs). 'eosbridge audit' needs them for pipelines that transform; about 100 bytes per record. Such headers of an input are replaced."`
	PassThrough  string `env:"PASS_THROUGH" envDefault:"auto" oneof:"auto|off" doc:"'auto' hands batches of records on as they are, compressed as they are, where a pipeline changes nothing of them: no transform, 'BRIDGE_PARTITIONING=preserve', no 'BRIDGE_PROVENANCE', 'exactly-once', and a cluster whose 'transaction.version' is 2 or higher. It costs far less CPU time. Batches that the output topic would not take as they are, and many small ones in a row, are still decoded; the metric 'eosbridge_batches_total' says why. 'off' decodes everything."`
	OnError      string `env:"ON_ERROR" envDefault:"fail" oneof:"fail|skip|dlq" doc:"What becomes of a record that a transform cannot handle, or that the output topic refuses. 'fail': the process ends with status 1 and names it. 'skip': it is left out, logged and counted. 'dlq': it is written as it was read to 'BRIDGE_DLQ_TOPIC', in the transaction that advances its position; see docs/dlq.md. With 'at-most-once' the last two apply to what is found before the output is written."`
	DLQTopic     string `env:"DLQ_TOPIC" example:"orders-dlq" doc:"Topic for dead letters, needed with 'BRIDGE_ON_ERROR=dlq'. It must exist and be neither input nor output. A dead letter keeps its partition number, modulo the number of partitions there. Several pipelines may share one."`
	ErrorLimit   int    `env:"ERROR_LIMIT" envDefault:"1000" doc:"With 'BRIDGE_ON_ERROR' 'skip' or 'dlq': how many records in a row may fail, without one that does not in between in the whole process. One more ends it with status 1, naming the last: then it is not the records. 0 allows any number."`
	Start        string `env:"START" default:"unset: 'earliest' into an empty output, else refused" example:"2026-01-31T00:00:00Z" doc:"Where to begin on an input topic for which the group has no committed position: 'earliest', 'latest', or a time in RFC 3339 form. Has no effect once there is a position."`
	Delivery     string `env:"DELIVERY" envDefault:"exactly-once" oneof:"exactly-once|at-least-once|at-most-once" doc:"The guarantee. 'exactly-once': output and positions are committed in one transaction. 'at-least-once': positions are committed after the output; a crash duplicates. 'at-most-once': positions are committed before the output; a crash loses."`

	GroupID       string `env:"GROUP_ID" required:"true" example:"orders-bridge" section:"Identity and group" doc:"Consumer group. All copies of one pipeline share it; two pipelines never do."`
	InstanceID    string `env:"INSTANCE_ID" default:"first label of the host name" example:"orders-bridge-0" doc:"Name of this copy within the group: static member id ('group.instance.id') and middle part of the transactional ids. Letters, digits, '-' and '_'; no dot. It should stay the same across restarts (a StatefulSet's pod name does): a restarted copy then takes its own place again at once. Of two live processes with one name the newer wins and the other ends with status 75."`
	TxnPrefix     string `env:"TXN_PREFIX" default:"the group id" doc:"First part of the transactional ids '<prefix>.<instance>.<0 or 1>'. The permission to write and describe transactional ids with this prefix is needed."`
	GroupProtocol string `env:"GROUP_PROTOCOL" envDefault:"classic" oneof:"classic|consumer" doc:"'classic' balances cooperatively among the members; 'consumer' lets the broker do it (KIP-848; Kafka 4.3 and later), at the pace of its 'group.consumer.heartbeat.interval.ms': with the default of 5 s a partition that moves has no reader for that long."`

	EpochInterval    time.Duration `env:"EPOCH_INTERVAL" envDefault:"100ms" section:"Checkpoint epochs" doc:"Time between checkpoints: each commits one epoch. 0 starts the next one as soon as the last is committed. When unset and the cluster's finalized 'transaction.version' is below 2, 1s is used."`
	EpochMaxInterval time.Duration `env:"EPOCH_MAX_INTERVAL" default:"'BRIDGE_EPOCH_INTERVAL', at least 100ms" example:"500ms" doc:"While the source is behind, the interval doubles with each epoch up to this: a commit costs the same however much it commits. Caught up, 'BRIDGE_EPOCH_INTERVAL' is in force again. When both are equal, nothing adapts."`
	EpochTimeout     time.Duration `env:"EPOCH_TIMEOUT" envDefault:"15s" doc:"Longest time from an epoch's barrier to its acknowledged commit, the wait for the epoch before included. After that the epoch fails."`
	EpochMaxRecords  int           `env:"EPOCH_MAX_RECORDS" envDefault:"1000000" doc:"Closes an epoch early after that many records read."`
	EpochMaxBytes    Bytes         `env:"EPOCH_MAX_BYTES" envDefault:"64MiB" doc:"Closes an epoch early after that many bytes read."`
	EpochMinPause    time.Duration `env:"EPOCH_MIN_PAUSE" envDefault:"0s" doc:"Shortest time between the end of a commit and the next barrier."`

	TxnTimeout       time.Duration `env:"TXN_TIMEOUT" envDefault:"40s" section:"Timeouts" doc:"Transaction timeout: the broker aborts a transaction that is open for longer. At most the brokers' 'transaction.max.timeout.ms'."`
	SessionTimeout   time.Duration `env:"SESSION_TIMEOUT" envDefault:"45s" doc:"How long a silent member keeps its partitions. With 'BRIDGE_GROUP_PROTOCOL=consumer' the brokers' 'group.consumer.session.timeout.ms' counts instead."`
	RebalanceTimeout time.Duration `env:"REBALANCE_TIMEOUT" envDefault:"60s" doc:"How long a rebalance waits for a member to hand over its partitions."`
	StopTimeout      time.Duration `env:"STOP_TIMEOUT" envDefault:"20s" doc:"Time for the last commit after SIGTERM or SIGINT; then the open epochs are aborted, and repeated by whoever comes next. A second signal aborts at once."`
	LeaveOnStop      bool          `env:"LEAVE_ON_STOP" envDefault:"true" doc:"Leaves the group at a clean stop, so that the other members take over at once. 'false' keeps the partitions for a restart within the session timeout."`

	Lanes       int    `env:"LANES" section:"Resources" default:"number of usable CPUs" doc:"Goroutines that transform; the partitions are spread over them. With transforms that take long those that have little to do help the others, so that one busy partition has them all."`
	Compression string `env:"COMPRESSION" envDefault:"lz4" oneof:"none|gzip|snappy|lz4|zstd" doc:"Compression of what is written. When unset, batches that are passed through keep theirs ('BRIDGE_PASS_THROUGH')."`
	// MemoryLimit is 0 if it is to be derived when running.
	MemoryLimit Bytes `env:"MEMORY_LIMIT" default:"90 % of the cgroup's limit, else 512MiB" example:"1GiB" doc:"Memory of the process. What is read and not yet acknowledged, fetches and buffers have shares of it, and the garbage collector keeps to it; reading pauses when the share of records is used up. A record may take a sixteenth of it, or 8 MiB if that is more."`

	RestartMaxDelay time.Duration `env:"RESTART_MAX_DELAY" envDefault:"30s" section:"Failures" doc:"The delay between restarts after a failure doubles up to this."`
	RestartLimit    int           `env:"RESTART_LIMIT" envDefault:"20" doc:"Restarts in a row without a commit, after which the process ends with status 1. Unreachable brokers do not count."`

	HTTPAddr  Address `env:"HTTP_ADDR" envDefault:"127.0.0.1:9464" section:"Observation" doc:"'host:port' of the endpoints for health, metrics and status; ':9464' listens on every interface, 'off' on none. They are read-only and without authentication."`
	PprofAddr Address `env:"PPROF_ADDR" envDefault:"off" example:"127.0.0.1:6060" doc:"'host:port' for Go's profiler, or 'off'."`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `env:"LEVEL" section:"Logs" envDefault:"info" oneof:"debug|info|warn|error" doc:"Least severe level that is logged. 'info' is silent while nothing changes; 'debug' shows every epoch."`
	Format string `env:"FORMAT" envDefault:"auto" oneof:"auto|text|json" doc:"'auto' is 'text' on a terminal, else 'json'. Logs go to standard error."`
}

// SchemaRegistry says how to reach a schema registry that speaks the protocol of Confluent's.
type SchemaRegistry struct {
	URL            []string `env:"URL" example:"https://registry-1:8081,https://registry-2:8081" doc:"Comma-separated list of URLs of one schema registry, for the transforms that ask it ('schema_decode' and others). The next one is asked where one cannot be reached."`
	Username       string   `env:"USERNAME" doc:"User of the registry (HTTP basic authentication)."`
	Password       Secret   `env:"PASSWORD" doc:"Password of that user. A file with it is read again for every request: replacing it needs no restart."`
	AllowPlaintext bool     `env:"ALLOW_PLAINTEXT" envDefault:"false" doc:"Permits a password without TLS: anyone on the network path can then read it."`
	TLSCAFile      string   `env:"TLS_CA_FILE" default:"the system's roots" doc:"PEM file with the authorities that may sign the registry's certificate. All three TLS files are read again for every new connection."`
	TLSCertFile    string   `env:"TLS_CERT_FILE" doc:"PEM file with our certificate and its chain, for a registry that asks for one (mTLS)."`
	TLSKeyFile     string   `env:"TLS_KEY_FILE" doc:"PEM file with the private key of our certificate."`
}

// OTel holds the variables of OpenTelemetry that are about a program as a whole. They have the names and forms of its
// specification, and are judged only where traces are sent: other programs may own them.
type OTel struct {
	SDKDisabled        bool   `env:"SDK_DISABLED" envDefault:"false" doc:"'true' sends no traces, whatever the variables below say."`
	TracesExporter     string `env:"TRACES_EXPORTER" default:"'otlp'" doc:"'none' sends no traces; there is no other exporter here than 'otlp'."`
	ServiceName        string `env:"SERVICE_NAME" default:"'service.name' of the variable below, else 'eosbridge'" example:"orders-bridge" doc:"Name of the service in traces."`
	ResourceAttributes string `env:"RESOURCE_ATTRIBUTES" example:"deployment.environment.name=production,team=orders" doc:"What else is told of this process with its traces: 'name=value,name=value', values percent-encoded where needed. They win over 'service.version' and 'service.instance.id', which are there by themselves."`
}

// OTLP says how to reach a collector. What is zero is unset, since one set of variables wins over another.
type OTLP struct {
	Endpoint          string `env:"ENDPOINT" default:"unset: no traces" example:"http://127.0.0.1:4318" doc:"URL of a collector that takes OTLP over HTTP as JSON. 'OTEL_EXPORTER_OTLP_ENDPOINT' gets '/v1/traces' appended, 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT' is used as it is. Each epoch becomes one trace; see docs/tracing.md."`
	Headers           Secret `env:"HEADERS" doc:"Headers of each request, such as credentials: 'name=value,name=value', values percent-encoded where needed. A file with them is read again for every request."`
	Timeout           int    `env:"TIMEOUT" default:"10000" doc:"Longest time of a request, in milliseconds."`
	Protocol          string `env:"PROTOCOL" default:"'http/json'" doc:"'http/json'. 'http/protobuf' is accepted, and JSON is sent nevertheless, which collectors take at the same address. 'grpc' is refused."`
	Compression       string `env:"COMPRESSION" default:"'none'" doc:"'gzip' or 'none'."`
	Certificate       string `env:"CERTIFICATE" default:"the system's roots" doc:"PEM file with the authorities that may sign the collector's certificate. All three TLS files are read again for every new connection."`
	ClientCertificate string `env:"CLIENT_CERTIFICATE" doc:"PEM file with our certificate and its chain, for a collector that asks for one (mTLS)."`
	ClientKey         string `env:"CLIENT_KEY" doc:"PEM file with the private key of our certificate."`
}

// The words of the settings that choose between a few.
const (
	ProtocolPlaintext     = "PLAINTEXT"
	ProtocolSSL           = "SSL"
	ProtocolSASLPlaintext = "SASL_PLAINTEXT"
	ProtocolSASLSSL       = "SASL_SSL"

	MechanismPlain       = "PLAIN"
	MechanismScramSHA256 = "SCRAM-SHA-256"
	MechanismScramSHA512 = "SCRAM-SHA-512"
	MechanismOAuthBearer = "OAUTHBEARER"
	MechanismMSKIAM      = "AWS_MSK_IAM"

	PartitioningPreserve = "preserve"
	PartitioningKey      = "key"

	PassThroughAuto = "auto"
	PassThroughOff  = "off"

	OnErrorFail = "fail"
	OnErrorSkip = "skip"
	OnErrorDLQ  = "dlq"

	DeliveryExactlyOnce = "exactly-once"
	DeliveryAtLeastOnce = "at-least-once"
	DeliveryAtMostOnce  = "at-most-once"

	GroupProtocolClassic  = "classic"
	GroupProtocolConsumer = "consumer"

	StartEarliest = "earliest"
	StartLatest   = "latest"

	LogFormatAuto = "auto"
	LogFormatText = "text"
	LogFormatJSON = "json"
)

// UsesTLS says whether connections to the brokers are encrypted.
func (k *Kafka) UsesTLS() bool {
	return k.SecurityProtocol == ProtocolSSL || k.SecurityProtocol == ProtocolSASLSSL
}

// UsesSASL says whether we authenticate by SASL.
func (k *Kafka) UsesSASL() bool {
	return k.SecurityProtocol == ProtocolSASLPlaintext || k.SecurityProtocol == ProtocolSASLSSL
}
