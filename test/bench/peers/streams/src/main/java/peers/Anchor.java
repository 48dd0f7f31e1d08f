package peers;

import java.util.Map;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.StoreBuilder;

/**
 * A store that holds nothing but counts as persistent. Streams keeps its process id, and with it the transactional id,
 * over restarts only if it has such a store. Without one, the transaction of a killed instance is open until it times
 * out, and a restart waits 10 s and more for it.
 */
final class Anchor implements StoreBuilder<StateStore> {
    static final String NAME = "anchor";

    @Override
    public StateStore build() {
        return new StateStore() {
            private boolean open;

            @Override
            public String name() {
                return NAME;
            }

            @Override
            public void init(StateStoreContext context, StateStore root) {
                context.register(root, (key, value) -> {});
                open = true;
            }

            @Override
            public void close() {
                open = false;
            }

            @Override
            public boolean persistent() {
                return true;
            }

            @Override
            public boolean isOpen() {
                return open;
            }
        };
    }

    @Override
    public StoreBuilder<StateStore> withCachingEnabled() {
        return this;
    }

    @Override
    public StoreBuilder<StateStore> withCachingDisabled() {
        return this;
    }

    @Override
    public StoreBuilder<StateStore> withLoggingEnabled(Map<String, String> config) {
        return this;
    }

    @Override
    public StoreBuilder<StateStore> withLoggingDisabled() {
        return this;
    }

    @Override
    public Map<String, String> logConfig() {
        return Map.of();
    }

    @Override
    public boolean loggingEnabled() {
        return false;
    }

    @Override
    public String name() {
        return NAME;
    }
}
