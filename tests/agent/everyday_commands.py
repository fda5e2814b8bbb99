"""What coding agents run all day, written before the rules were. Nobody should be asked about these."""

from __future__ import annotations

EVERYDAY = r"""
ls -la
ls -R src | head -50
pwd
cd src && ls
cat README.md
cat package.json | jq .scripts
head -100 src/app.py
tail -n 50 logs/app.log
tail -f -n 0 logs/app.log
sed -n '1,120p' src/app.py
sed -i 's/foo/bar/g' src/app.py
sed -e 's/a/b/' -e '/^$/d' notes.txt
awk '{print $1}' access.log | sort | uniq -c | sort -rn | head
awk -F, '$3 > 10 {print $1","$2}' data.csv
awk 'NR>1 {s+=$2} END {print s/NR}' data.csv
grep -rn "TODO" src --include=*.py
grep -rn 'rm -rf' scripts
grep -E 'sudo|chmod' README.md
rg -n "def main" -g '*.py'
rg --files | wc -l
find . -name '*.py' -not -path './node_modules/*' | head
find . -type f -size +1M -exec ls -lh {} \;
find . -name '*.pyc' -delete
find src -name '*.ts' | xargs wc -l
find . -name '__pycache__' -type d -prune -exec rm -rf {} +
fd -e py
tree -L 2 -I node_modules
wc -l $(git ls-files '*.py')
diff -u a.txt b.txt
diff -r src build/src
cut -d: -f1 names.txt | sort -u
tr 'a-z' 'A-Z' < names.txt
xargs -n1 echo < names.txt
mkdir -p build/out
touch build/out/.gitkeep
cp -r templates build/
cp config.example.json config.json
mv old.py new.py
ln -s ../shared shared
rm -rf build dist
rm -f *.log
rm -rf node_modules && npm install
rm package-lock.json
chmod +x run.sh
chmod 644 README.md
stat package.json
file bin/app
du -sh .
df -h .
git status
git status --porcelain
git diff
git diff HEAD~1 --stat
git diff --cached
git log --oneline -20
git log -p -1 -- src/app.py
git log --graph --all --oneline | head -30
git show HEAD:src/app.py
git blame -L 10,20 src/app.py
git add -A
git add src/app.py && git commit -m "Fix the parser"
git commit -am "wip: don't rm -rf anything"
git commit --amend --no-edit
git checkout -b feature/x
git checkout main
git switch -c fix
git branch -a
git branch -d merged
git merge feature/x
git rebase main
git pull --rebase
git fetch --all --prune
git push
git push origin feature/x
git push -u origin HEAD
git stash
git stash pop
git stash list
git tag v1.2.3
git remote -v
git config --get user.email
git config user.name "Ann"
git rev-parse --abbrev-ref HEAD
git ls-files | grep test
git cherry-pick abc123
git revert abc123
git reset HEAD src/app.py
git reset --soft HEAD~1
git clone https://github.com/psf/requests.git
git clone --depth 1 https://github.com/psf/requests /tmp/requests
git submodule update --init
git worktree add ../wt feature
git -C sub status
git --no-pager log -5
git -c color.ui=always diff | head
git grep -n parse
git restore --staged src/app.py
git describe --tags
git bisect start
git shortlog -sn
npm test
npm run build
npm ci
npm install
npm install lodash
npm install --save-dev typescript
npm run lint -- --fix
npm ls --depth=0
npm outdated
npm view react version
npm audit
yarn
yarn install --frozen-lockfile
yarn test --watch=false
pnpm install
pnpm -r build
node --version
node index.js
node -e "console.log(1+1)"
node -p "require('./package.json').version"
node -e "console.log(JSON.stringify({a:1}))"
node --test
npx tsc --noEmit
npx eslint src
npx jest --ci
npx prettier --check .
npx vitest run
npx playwright test
tsc -p tsconfig.json
python3 --version
python3 app.py
python3 -m pytest -q
python -m pytest tests/test_app.py::test_x -x
pytest -q --tb=short
pytest -k "not slow" -n 4
python3 -c "print(1+1)"
python3 -c "import json; print(json.dumps({'a': 1}))"
python3 -c "import sys; print(sys.version)"
python3 -c "import json,sys; d=json.load(sys.stdin); print(d['name'])" < package.json
python3 -c "import numpy as np; print(np.__version__)"
python3 -c "from datetime import datetime; print(datetime.now().isoformat())"
python3 -c "import re; print(re.findall(r'\d+', 'a1b22'))"
python3 -c "import app; print(app.__version__)"
python3 -m json.tool data.json
python3 -m venv .venv
. .venv/bin/activate && pip install -r requirements.txt
source .venv/bin/activate
pip install -r requirements.txt
pip install requests
pip install -e .
pip install -e '.[dev]'
pip list
pip show requests
pip freeze > requirements.txt
uv sync
uv run pytest
uv pip install -r requirements.txt
poetry install
poetry run pytest
ruff check .
ruff format --check
mypy src
black --check .
flake8
isort .
pre-commit run --all-files
tox -e py311
python3 setup.py build_ext --inplace
python3 -m build
python3 -m unittest discover
python3 manage.py test
python3 manage.py makemigrations --dry-run
coverage run -m pytest
go build ./...
go test ./...
go test -run TestX -v ./pkg/...
go vet ./...
go mod tidy
go fmt ./...
go run .
go run ./cmd/server
gofmt -l .
cargo build
cargo build --release
cargo test
cargo test -- --nocapture
cargo clippy -- -D warnings
cargo fmt --check
cargo run -- --help
cargo add serde
rustc --version
make
make test
make -j4 all
make -C lib clean
make -n install
cmake -B build -S .
cmake --build build -j
ctest --test-dir build
ninja -C build
./configure --prefix=$PWD/out
gcc -O2 -o app app.c
g++ -std=c++20 main.cpp -o main && ./main
./gradlew test
mvn -q test
mvn package -DskipTests
dotnet build
dotnet test
bundle install
bundle exec rspec
rake test
ruby -v
ruby -e 'puts 1 + 1'
perl -v
perl -ne 'print if /foo/' notes.txt
perl -pi -e 's/foo/bar/g' src/app.py
php -v
php artisan test
composer install
swift build
bash run.sh
bash -n run.sh
sh scripts/build.sh
./run.sh --help
bash -c 'echo hi'
set -e; npm run build; npm test
shellcheck run.sh
time make
timeout 60 npm test
nohup npm start > server.log 2>&1 &
env | sort
env NODE_ENV=test npm test
NODE_ENV=production npm run build
PYTHONPATH=src python3 -m pytest
PYTHONPATH=. pytest tests
DEBUG=1 python3 app.py
export FOO=bar && echo $FOO
echo "$HOME"
echo $PATH
printf '%s\n' a b c
date
date -u +%Y-%m-%dT%H:%M:%SZ
whoami
id
hostname
uname -a
uptime
which python3 node go
command -v rg
type git
ps aux | grep node | grep -v grep
ps -ef
pgrep -fl node
lsof -i :8000
ss -ltnp
netstat -an | head
kill 12345
kill %1
sleep 2
seq 1 10
free -m
nproc
top -bn1 | head -15
docker ps
docker ps -a --format '{{.Names}}'
docker images
docker logs --tail 50 web
docker build -t app .
docker compose ps
docker compose logs web
docker inspect web
docker --version
kubectl get pods
kubectl -n prod get pods -o wide
kubectl logs web-1 --tail=20
kubectl describe pod web-1
kubectl config current-context
helm list -A
helm template ./chart
terraform plan
terraform validate
terraform fmt -check
aws sts get-caller-identity
aws s3 ls
gh pr list
gh pr view 12
gh issue list --limit 5
gh -R o/r pr checks 12
gh run view 123 --log
curl -s https://api.github.com/repos/psf/requests
curl -I https://example.com
curl -sS http://localhost:8000/health
curl -fsSL https://example.com/data.json -o data.json
curl -s https://example.com/data.json | jq '.items[0]'
curl -X POST -H 'Content-Type: application/json' -d '{"a":1}' http://localhost:8000/api
curl -s -o /dev/null -w '%{http_code}' http://localhost:3000
curl --retry 3 --max-time 10 https://example.com
wget -q https://example.com/data.csv
wget -O data.zip https://example.com/data.zip && unzip -o data.zip -d data
jq '.name' package.json
jq -r '.dependencies | keys[]' package.json
yq '.services' docker-compose.yml
tar xzf data.tgz -C data
tar czf out.tgz build
unzip -l data.zip
zip -r out.zip build
gzip -k data.csv
base64 logo.png | head -c 100
echo aGVsbG8= | base64 -d
md5sum data.csv
sha256sum -c SUMS
openssl version
sqlite3 app.db '.schema'
sqlite3 app.db 'SELECT * FROM users LIMIT 5'
psql -h localhost -U app -c '\dt'
psql -c 'SELECT count(*) FROM orders'
redis-cli ping
mysql -e 'SHOW TABLES' shop
for f in src/*.py; do python3 -m py_compile "$f"; done
for i in 1 2 3; do echo $i; done
while read -r l; do echo "$l"; done < names.txt
if [ -d node_modules ]; then echo yes; fi
[ -f .nvmrc ] && cat .nvmrc
test -e build || mkdir build
cat > src/new.py <<'EOF'
cat <<EOF > config.json
echo "import os" > src/x.py
tee notes.txt < names.txt
sort -t, -k2 -n data.csv | head
uniq -d names.txt
comm -12 a.txt b.txt
paste a.txt b.txt
column -t -s, data.csv | less
nl -ba src/app.py | sed -n '10,20p'
xxd data.bin | head
od -c data.bin | head -3
strings bin/app | grep version
objdump -d bin/app | head
ldd bin/app
nm -D lib.so | head
strace -c ls
vim --version
code --version
man ls | head
python3 - <<'EOF'
crontab -l
systemctl status nginx
journalctl -u nginx -n 20
apt list --installed | head
dpkg -l | grep ssl
brew list
ssh -V
ping -c 1 example.com
dig example.com
traceroute example.com
flask --version
uvicorn app:app --reload --port 8000
npm run dev
python3 -m http.server --bind 127.0.0.1 8080
streamlit run app.py
jupyter nbconvert --to script nb.ipynb
pandoc README.md -o README.html
convert logo.png -resize 50% small.png
ffmpeg -i in.mp4 -ss 00:00:01 -vframes 1 out.png
"""
_ENDS = {
    "cat > src/new.py <<'EOF'": "\nimport os\nprint('rm -rf /')\nEOF",
    "cat <<EOF > config.json": '\n{"home": "$HOME"}\nEOF',
    "python3 - <<'EOF'": "\nimport json\nprint(json.dumps([x * 2 for x in range(3)]))\nEOF",
}


def commands() -> list[str]:
    return [line + _ENDS.get(line, "") for line in EVERYDAY.split("\n") if line]
