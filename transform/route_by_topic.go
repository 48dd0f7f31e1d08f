package transform

func init() {
	Register(Definition{
		Name:  "route_by_topic",
		Usage: "route_by_topic(input=topic, ..., *=topic)",
		Doc: "Sends the record to the topic that the table gives for the topic it was read from. " +
			"* stands for every other input; without it those records go where they would have gone. " +
			"All topics have to exist. A long table can be read from a file: route_by_topic(@file).",
		Example: "route_by_topic(orders=shop.orders, payments=shop.payments, *=shop.other)",
		New:     newRouteByTopic,
	})
}

// routeByTopic chooses the topic by the input topic.
type routeByTopic struct{ routes }

func newRouteByTopic(arg string) (Transform, error) {
	r := argReader{arg: arg}
	table, err := r.routes("the input topic")
	return &routeByTopic{table}, err
}

func (t *routeByTopic) Apply(in *Record, out []Record) ([]Record, error) {
	topic, known := t.topics[in.Topic]
	if !known {
		topic = t.otherwise
	}
	return send(in, out, topic), nil
}
