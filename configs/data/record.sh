#!/bin/bash
# Records quickstart.pcap: real traffic of the kernel's own TCP/IP between two network namespaces.
#
#   sudo configs/data/record.sh [FILE]        FILE: configs/data/quickstart.pcap if not given
#
# ARP and neighbour discovery, ping over IPv4 and IPv6, UDP datagrams, a TCP transfer with segments as large as
# the MTU. Needs root, iproute2, ethtool, ping, python3 and tcpdump. All addresses are in the namespaces;
# namespaces, links and processes are gone when the script ends, however it ends.
set -euo pipefail

file=$(realpath -m "${1:-$(dirname "$0")/quickstart.pcap}")
client=tidegate-client-$$
server=tidegate-server-$$
recorder=

clean_up() {
    [ -z "$recorder" ] || kill "$recorder" 2>/dev/null || true
    rm -f "$file.new"
    # A namespace takes its links with it; whoever still runs in it was started here.
    for name in "$client" "$server"; do
        ip netns pids "$name" 2>/dev/null | xargs -r kill 2>/dev/null || true
        ip netns delete "$name" 2>/dev/null || true
    done
}
trap clean_up EXIT

for tool in ip ethtool ping python3 tcpdump timeout; do
    command -v "$tool" >/dev/null || { echo "$tool is missing" >&2; exit 1; }
done

ip netns add "$client"
ip netns add "$server"
ip -n "$client" link add eth0 address 02:00:00:00:00:01 type veth \
    peer name eth0 address 02:00:00:00:00:02 netns "$server"
ip -n "$client" address add 10.1.0.1/24 dev eth0
ip -n "$server" address add 10.1.0.2/24 dev eth0
ip -n "$client" address add fd00:1::1/64 dev eth0 nodad
ip -n "$server" address add fd00:1::2/64 dev eth0 nodad
for name in "$client" "$server"; do
    # Without offloads what is captured is what would be on a wire: MTU-sized, with right checksums.
    ip netns exec "$name" ethtool -K eth0 tx off tso off gso off gro off >/dev/null
    ip -n "$name" link set lo up
done

# Ready before the other end comes up, so that nothing is missed; at most 20 s and 400 packets.
ip -n "$client" link set eth0 up
ip netns exec "$client" timeout 20 tcpdump -q -Z root -i eth0 -w "$file.new" -U -c 400 --immediate-mode &
recorder=$!
sleep 1
ip -n "$server" link set eth0 up
sleep 1

ip netns exec "$client" ping -q -c 4 -i 0.2 -w 5 10.1.0.2 >/dev/null
ip netns exec "$client" ping -q -c 2 -i 0.2 -w 5 -t 1 10.1.0.2 >/dev/null
ip netns exec "$client" ping -q -c 4 -i 0.2 -w 5 fd00:1::2 >/dev/null

# Echoes UDP datagrams, and answers each TCP request with as many bytes as it asks for.
ip netns exec "$server" timeout 20 python3 - <<'PYTHON' &
import socket, threading

def datagrams():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("10.1.0.2", 40000))
    while True:
        data, peer = server.recvfrom(2048)
        server.sendto(data, peer)

threading.Thread(target=datagrams, daemon=True).start()
server = socket.create_server(("10.1.0.2", 40001))
while True:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"tidegate" * (int(connection.recv(64)) // 8))
PYTHON
sleep 1
ip netns exec "$client" timeout 15 python3 - <<'PYTHON'
import socket

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.settimeout(5)
    for size in (12, 60, 300, 1200) * 3:
        client.sendto(bytes(size), ("10.1.0.2", 40000))
        client.recv(2048)
    # Nobody listens here: an ICMP error comes back.
    client.sendto(b"anybody?", ("10.1.0.2", 9))
for size in (800, 24_000, 64_000):
    with socket.create_connection(("10.1.0.2", 40001), timeout=5) as client:
        client.sendall(str(size).encode())
        while client.recv(65536):
            pass
PYTHON

sleep 1
kill "$recorder" || true
wait "$recorder" || true
recorder=
[ -s "$file.new" ] || { echo "nothing was recorded" >&2; exit 1; }
chmod 644 "$file.new"
mv "$file.new" "$file"
echo "$file: $(stat -c %s "$file") bytes"
