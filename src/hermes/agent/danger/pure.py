"""The allow-lists of inline code: what only computes and prints. Whatever is not listed is asked for.

Names are listed by language. Of a module of Python only the names in its row are allowed, `*` = all of it."""

from __future__ import annotations

from hermes.agent.danger.names import by_name, listed

_ALL = frozenset({"*"})
PYTHON_MODULES: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        listed(
            """
    __future__ abc argparse array base64 binascii bisect calendar cmath collections colorsys copy csv
    dataclasses datetime decimal difflib enum errno fractions graphlib hashlib heapq hmac html ipaddress
    itertools json keyword locale math numbers pprint random re reprlib secrets statistics string stringprep
    struct textwrap time token tokenize typing unicodedata uuid zoneinfo urllib.parse html.entities
    collections.abc packaging packaging.version tabulate dateutil dateutil.parser pytz http.HTTPStatus
    termcolor colorama typing_extensions
    """
        ),
        _ALL,
    ),
    "ast": listed("parse dump literal_eval walk unparse get_docstring NodeVisitor Name Call Constant"),
    "functools": listed("reduce partial lru_cache cache wraps total_ordering cmp_to_key cached_property"),
    "operator": listed("itemgetter add sub mul truediv mod eq ne lt le gt ge or_ and_ xor neg not_ contains"),
    "types": listed("SimpleNamespace MappingProxyType"),
    "inspect": listed("signature getdoc getsource isclass isfunction ismodule getfile cleandoc getmembers"),
    "contextlib": listed("suppress nullcontext"),
    "io": listed("StringIO BytesIO TextIOWrapper"),
    "importlib.metadata": listed("version metadata PackageNotFoundError distributions requires"),
    "platform": listed(
        "python_version system machine release platform node architecture uname processor version"
    ),
    "sys": listed(
        """
    argv version version_info stdin stdout stderr exit path platform executable maxsize byteorder getsizeof
    getrecursionlimit setrecursionlimit implementation prefix float_info hexversion getdefaultencoding
    getfilesystemencoding stdlib_module_names builtin_module_names flags base_prefix
"""
    ),
    "sysconfig": listed("get_path get_paths get_config_var get_platform get_python_version get_config_vars"),
    "os": listed(
        """
    getcwd listdir path sep linesep name cpu_count getpid getppid environ getenv walk scandir stat pathsep
    curdir extsep devnull fspath uname times getloadavg get_terminal_size urandom getlogin getuid
"""
    ),
    "os.path": listed(
        """
    join exists isfile isdir basename dirname abspath getsize splitext split relpath normpath expanduser
    realpath getmtime isabs commonpath commonprefix islink sep
"""
    ),
    "pathlib": listed("Path PurePath PurePosixPath PosixPath"),
    "glob": listed("glob iglob escape"),
    "fnmatch": _ALL,
    "shlex": listed("split quote join"),
    "timeit": listed("default_timer"),
    "traceback": listed("print_exc format_exc"),
    "shutil": listed("which disk_usage get_terminal_size"),
    "zlib": listed("crc32 adler32 compress"),
    "tomllib": listed("load loads TOMLDecodeError"),
    "toml": listed("load loads dumps"),
    "yaml": listed("safe_load safe_load_all safe_dump dump YAMLError"),
    "numpy": listed(
        """
    array arange zeros ones linspace mean std sum dot random sqrt pi exp log sin cos tan min max argmax
    argmin where reshape concatenate stack unique median percentile allclose float64 float32 int64 int32 eye
    abs round cumsum diff sort argsort isnan nan inf linalg shape full vstack hstack ndarray dtype var
    isclose array_equal clip outer matmul transpose histogram corrcoef bincount
"""
    ),
    "numpy.random": listed("rand randn randint seed default_rng normal uniform choice random shuffle"),
    "numpy.linalg": listed("norm inv det solve eig svd eigvals"),
    "pandas": listed("DataFrame Series to_datetime concat date_range Timestamp merge isna notna NA options"),
}
"""What may be used of modules. Of any other module that is not Python's own, only its version."""
OWN_FACTS = listed("__version__ __file__ __name__ __doc__ __path__ VERSION version __all__")
PYTHON_BUILTINS = listed(
    """
        abs all any ascii input bin bool bytearray bytes callable chr complex dict dir divmod enumerate
        filter float format frozenset hasattr hash help hex id int isinstance issubclass iter len list map
        max min next object oct ord pow print property range repr reversed round set slice sorted
        staticmethod classmethod str sum super tuple type zip True False None NotImplemented Ellipsis
        __name__ __file__ __doc__ exit quit
    """
)
PYTHON_METHODS = listed(
    """
        append extend insert remove pop clear copy count index sort reverse get items keys values update
        setdefault popitem fromkeys add discard union intersection difference symmetric_difference issubset
        issuperset isdisjoint capitalize casefold center encode decode endswith expandtabs find format
        format_map isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable
        isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix
        replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title
        translate upper zfill read readline readlines write writelines flush close seek tell group groups
        groupdict match fullmatch search findall finditer sub subn span start end loads dumps load dump
        isoformat strftime strptime timestamp date time now today utcnow fromtimestamp fromisoformat
        total_seconds astimezone timetuple weekday isoweekday combine most_common elements subtract
        appendleft popleft extendleft rotate hexdigest digest bit_length to_bytes from_bytes is_integer
        as_integer_ratio conjugate hex reader writer DictReader DictWriter writerow writerows writeheader
        mean sum std min max var median describe head tail sort_values groupby agg value_counts to_string
        tolist reshape astype round flatten transpose dot shape reset_index set_index isnull dropna fillna
        unique nunique quantile abs cumsum iterrows itertuples apply any all argmax argmin exists is_file
        is_dir resolve absolute as_posix with_suffix with_name relative_to iterdir glob rglob stat
        is_absolute joinpath home cwd expanduser parent seed random randint choice choices shuffle sample
        uniform gauss quantize sqrt ln log10 exp limit_denominator node getvalue getbuffer isatty fileno
        add_argument parse_args parse_known_args print_help visit generic_visit cache_clear cache_info
        __init__ send throw version lookup name _asdict _replace
    """
)
PYTHON_NEVER = listed(
    """
        system popen unlink rmdir removedirs rmtree rename renames chmod chown lchown kill killpg fork
        forkpty execv execve execl execlp execvp execvpe spawnl spawnv spawnvp posix_spawn startfile symlink
        link truncate putenv touch mkdir makedirs import_module symlink_to hardlink_to urlopen urlretrieve
        Popen run check_output check_call environb modules mro gi_frame cr_frame f_globals f_builtins
        f_locals tb_frame func_globals get_type_hints ForwardRef FileType _evaluate codecs
    """
)
"""Not even named: a name can be handed to something that calls it."""
FOREIGN_NEVER = listed(
    """
    load execute executemany request get post put patch delete download upload send connect shell system drop
    exec eval write save remove destroy deploy
    """
)
"""What modules of others are not told to do."""
PYTHON_RUNS = listed(
    """
        pytest unittest json.tool venv build py_compile compileall pip pytest_cov mypy ruff black isort
        flake8 pylint pyflakes pycodestyle coverage tox nox sphinx mkdocs doctest dis tokenize ast calendar
        this platform site sysconfig gzip tarfile zipfile base64 http.server pre_commit pyright flask
        uvicorn gunicorn hypercorn django celery alembic streamlit jupyter ipykernel notebook black isort
        autopep8 yapf bandit radon vulture twine build wheel setuptools_scm grpc_tools.protoc piptools
        poetry pdm hatch maturin cython numpy.f2py memory_profiler line_profiler scalene pyinstaller
        PyInstaller nuitka inspect trace pydoc tabnanny towncrier bumpversion locust behave robot stestr
        trial ensurepip.version quart sanic litestar IPython
    """
)
"""Modules of `python -m` that do what a developer runs all day; the rest is named or asked for."""

_SCRIPT_WORDS = {
    "node nodejs bun deno tsx ts-node": """
        await async break case catch class const continue debugger default delete do else extends finally
        for function if in instanceof let new of return static super switch this throw try typeof var void
        while yield true false null undefined NaN Infinity console log error table dir info warn JSON
        stringify parse Math Number String Boolean Array Object Date BigInt Symbol Map Set WeakMap RegExp
        Promise Intl parseInt parseFloat isNaN isFinite encodeURIComponent decodeURIComponent keys values
        entries assign fromEntries freeze from isArray map filter reduce forEach some every find findIndex
        includes indexOf join split slice splice concat push pop shift unshift sort reverse flat flatMap
        fill length toString toFixed toUpperCase toLowerCase trim trimStart trimEnd padStart padEnd replace
        replaceAll match matchAll test exec startsWith endsWith charAt charCodeAt codePointAt repeat
        substring toISOString toLocaleString getTime getFullYear getMonth getDate now floor ceil round max
        min abs sqrt pow random has get set add size then resolve all PI E process version versions argv
        platform arch memoryUsage uptime hrtime exit cwd nextTick stdout write name message stack setTimeout
        node v8 heapUsed rss title pid release execPath toStringTag iterator at localeCompare normalize
        hasOwn structuredClone performance env basename dirname extname sep cpus totalmem freemem hostname
        createHash update digest randomUUID randomBytes inspect isDeepStrictEqual homedir type tmpdir EOL
        URL URLSearchParams pathname searchParams hex base64 Error TypeError
    """,
    "ruby irb": """
        puts print p pp require json date time set digest securerandom bigdecimal pathname yaml if else
        elsif unless end def return do while until for in case when then begin rescue ensure next break nil
        true false and or not self each map select reject reduce inject sum min max sort sort_by first last
        length size count join split upcase downcase capitalize reverse strip chomp to_s to_i to_f to_a to_h
        to_sym to_json inspect times upto downto step each_with_index each_with_object zip flatten uniq
        compact group_by tally include start_with end_with gsub sub scan match tr format printf Integer
        Float String Array Hash Time now Date today parse strftime Math sqrt PI JSON generate
        pretty_generate RUBY_VERSION RUBY_PLATFORM SecureRandom hex uuid Digest SHA256 MD5 hexdigest rand
        round floor ceil abs even odd zero keys values key value merge fetch dig any all none find index new
        Struct Set Comparable lambda proc chars bytes lines gets ARGV STDIN each_line readlines rjust ljust
        center freeze dup push pop shift unshift Gem VERSION ruby_version
    """,
    "perl": """
        print printf say my our local if else elsif unless while until for foreach and or not eq ne lt gt le
        ge cmp x sub return next last redo split join map grep sort reverse keys values each exists defined
        undef length substr index rindex uc lc ucfirst lcfirst sprintf push pop shift unshift splice scalar
        wantarray abs int sqrt sin cos atan2 exp log hex oct rand srand time localtime gmtime chomp chop chr
        ord die warn use strict warnings utf8 feature List Util sum max min first POSIX floor ceil Data
        Dumper JSON PP encode_json decode_json Time HiRes STDIN STDOUT STDERR BEGIN END exit ref bless eof
        qw q qq m s tr y delete pos quotemeta lines Text Wrap constant integer bigint version
    """,
    "php": """
        echo print print_r var_dump printf sprintf if else elseif foreach for while do as function return
        true false null PHP_VERSION PHP_EOL PHP_OS PHP_INT_MAX phpversion json_encode json_decode
        JSON_PRETTY_PRINT strlen strtoupper strtolower str_replace substr explode implode count array range
        array_sum array_keys array_values in_array sort rsort date time microtime strtotime md5 sha1 crc32
        hash uniqid rand mt_rand random_int max min abs floor ceil round sqrt pi intdiv number_format trim
        ltrim rtrim ucfirst ucwords strrev str_pad str_repeat str_split is_array is_string is_int is_null
        isset empty unset preg_match preg_replace preg_split urlencode urldecode http_build_query
        base64_encode bin2hex int string float bool new fn DateTime format extension_loaded memory_get_usage
        php_sapi_name php_uname get_loaded_extensions
    """,
    "lua luajit": """
        print local function end if then else elseif for in do while repeat until return and or not nil true
        false pairs ipairs tostring tonumber type select next unpack string format rep sub gsub gmatch match
        find len upper lower reverse byte char table concat insert sort math floor ceil max min abs sqrt pi
        random huge os time date clock io write assert error setmetatable getmetatable rawget _VERSION pack
        fmod tointeger
    """,
    "R Rscript julia octave guile elixir iex clojure racket scala groovy ocaml ghci raku sbcl gnuplot": """
        print println puts cat display echo say write IO inspect paste paste0 format sprintf length sum mean
        median sd var max min abs sqrt exp log sin cos round floor ceil seq rep sort rev if else for while
        end begin let in do true false TRUE FALSE nil null None pi PI c list vector matrix nrow ncol head
        tail summary str nchar toupper tolower substr strsplit unlist map filter reduce range
        Sys time version VERSION R packageVersion Enum String Integer upcase downcase defn fn def val var
        newline string append car cdr cons define lambda join split R_version_string halt
    """,
    "tclsh wish": "puts set expr string length list lindex foreach incr if else while for format info",
}
SCRIPT_WORDS = {name: listed(words) for name, words in by_name(_SCRIPT_WORDS).items()}
"""The words that code of other languages may have, besides those it gives names to itself."""
SCRIPT_NEVER = listed(
    """
        constructor prototype __proto__ mainModule binding dlopen eval Function send public_send
        instance_eval fetch require import system exec execFile spawn popen fork unlink rename open File Dir
        IO Kernel fs child_process globalThis global import_module qx glob do load dofile loadstring
    """
)
"""Words that are never a name of the code's own."""
AWK_CALLS = listed(
    """
        length substr index split sub gsub gensub match sprintf tolower toupper int sqrt log exp sin cos
        atan2 rand srand systime strftime mktime and or xor compl lshift rshift strtonum asort asorti
        patsplit typeof isarray if while for print printf switch in return delete close fflush function func
    """
)
