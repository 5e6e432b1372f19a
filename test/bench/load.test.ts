// One process for all of them: each costs a second to start.
import './parts/load-response.ts'
import './parts/load-http.ts'
import './parts/load-failures.ts'
import './parts/load-rates.ts'
import './parts/load-streams.ts'
import './parts/load-udp.ts'
import './parts/load-idle.ts'
import './parts/load-wrk.ts'
