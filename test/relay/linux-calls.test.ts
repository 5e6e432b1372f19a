// One process for all of them: each costs a second to start.
import './parts/linux-calls-descriptors.ts'
import './parts/linux-calls-events.ts'
import './parts/linux-calls-loop.ts'
import './parts/linux-calls-messages.ts'
import './parts/linux-calls-probe.ts'
import './parts/linux-calls-sockaddr.ts'
import './parts/linux-calls-sockets.ts'
import './parts/linux-calls-timers.ts'
