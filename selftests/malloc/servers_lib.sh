# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # variables of and for the tests
# Servers for the tests with real programs. Sourced. Each function starts a server by a command,
# such as habrun, has it answer, ends it and prints the answers; its status is then in $status.
# $folder is a folder that all users may enter.
#
#   nginx_answers PORT COUNT COMMAND...      a file of 108,894 bytes, so many times
#   postgres_answers COUNT COMMAND...        what so many transactions of four clients have done
#   redis_answers NAME COUNT SIZE COMMAND... SET and LPUSH of so many values; what is there then
#
# Before the end of each the function before_end is called, if there is one.
PATH=$PATH:/usr/sbin:/usr/lib/postgresql/15/bin

before_end() { :; }

# ended PID: sets status.
ended() {
	status=0
	wait "$1" || status=$?
}

nginx_answers() {
	local url=http://127.0.0.1:$1/ server
	mkdir "$folder/www" "$folder/nginx"
	seq 20000 >"$folder/www/numbers"
	chmod 777 "$folder/nginx"
	cat >"$folder/nginx.conf" <<END
daemon off;
worker_processes 2;
pid $folder/nginx/pid;
error_log $folder/nginx/errors;
events { worker_connections 64; }
http {
	access_log off;
	$(for path in client_body proxy fastcgi uwsgi scgi; do echo "${path}_temp_path $folder/nginx/$path;"; done)
	server { listen 127.0.0.1:$1; location / { root $folder/www; autoindex on; gzip on; gzip_types *; } }
}
END
	"${@:3}" nginx -e "$folder/nginx/errors" -c "$folder/nginx.conf" 2>"$folder/nginx.said" &
	server=$!
	wait_until curl -sf "$url" || return
	curl -sf --compressed "${url}numbers?[1-$2]" | sha256sum
	before_end
	kill -TERM "$(cat "$folder/nginx/pid")"
	ended $server
}
right_nginx_answers() { for ((i = 0; i < $1; i++)); do seq 20000; done | sha256sum; }

# Postgres does not run as root.
as_user() {
	if [ "$(id -u)" = 0 ]; then
		(cd "$folder" && setpriv --reuid nobody --regid nogroup --clear-groups "$@")
	else
		"$@"
	fi
}

postgres_answers() {
	local options=(-h "$folder/postgres") server
	mkdir "$folder/postgres"
	[ "$(id -u)" != 0 ] || chown nobody "$folder/postgres"
	as_user initdb -D "$folder/postgres/data" -A trust -U test >/dev/null || return
	as_user "${@:2}" postgres -D "$folder/postgres/data" \
		-c listen_addresses= -c unix_socket_directories="$folder/postgres" \
		-c shared_buffers=32MB >"$folder/postgres.log" 2>"$folder/postgres.said" &
	server=$!
	wait_until pg_isready "${options[@]}" || return
	options+=(-U test)
	pgbench "${options[@]}" -i -s 1 postgres >/dev/null 2>&1
	pgbench "${options[@]}" -c 4 -t $(($1 / 4)) postgres >"$folder/pgbench" 2>&1
	psql "${options[@]}" -At -c \
		'select count(*), (select sum(abalance) from pgbench_accounts) - sum(delta) from pgbench_history' \
		postgres
	before_end
	as_user pg_ctl -D "$folder/postgres/data" stop -m fast >/dev/null
	ended $server
}

redis_answers() {
	local address=$folder/redis.$1 server
	"${@:4}" redis-server --port 0 --unixsocket "$address" --save '' --appendonly no --dir "$folder" \
		>"$folder/redis.log" 2>"$folder/redis.errors" &
	server=$!
	wait_until redis-cli -s "$address" ping || return
	redis-benchmark -s "$address" -n "$2" -r $(($2 / 2)) -d "$3" -t set,lpush -q >/dev/null
	for _ in {1..5}; do redis-cli -s "$address" rpush list "$(head -c 100000 /dev/zero | tr '\0' x)"; done
	redis-cli -s "$address" llen mylist
	redis-cli -s "$address" llen list
	redis-cli -s "$address" lrange list 0 -1 | sha256sum
	before_end
	redis-cli -s "$address" info memory | tr -d '\r' | sed -n 's/^used_memory://p' >"$folder/used"
	redis-cli -s "$address" shutdown nosave >/dev/null 2>&1
	ended $server
}

# is_near ESTIMATE TRUTH: within 15 %.
is_near() {
	echo "$1 of $2"
	[ $(($1 * 100)) -ge $(($2 * 85)) ] && [ $(($1 * 100)) -le $(($2 * 115)) ]
}
