/**
 * The data plane's user where it can have one of its own. No other program may have it: it could
 * join the listening sockets (SO_REUSEPORT, socket(7)) and would get a share of the clients. So
 * none of those that images run as (65532, 65534, ...), nor in the ranges that useradd(8), SSSD,
 * OpenShift (to 2 000 200 000) and systemd (UIDS-GIDS, to 1 879 048 191) hand out.
 */
export const dataPlaneUser = 2_071_510_256
